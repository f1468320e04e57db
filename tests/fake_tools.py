"""Stand-ins for the tools of an NPU build, as programs in a folder.

Each refuses every argument it was not promised, and then does what the real one is known to do.
What aiecc writes is given in the environment: TEST_XCLBIN, TEST_WORDS (in hex); TEST_PEANO is what
it must be told.
"""

from __future__ import annotations

import sys
from pathlib import Path

from aie_design.build import Toolchain

FIND = Toolchain.find  # the real one, for tests replace it

CLANG = """
known = {
    "-O2", "-std=c++20", "-DNDEBUG", "-Wno-parentheses", "-Wno-attributes", "-Wno-macro-redefined",
    "-Wno-empty-body", "-Wno-missing-template-arg-list-after-template-kw",
    "-D__AIE_API_AIE_ADF_HPP__",
}
rest = [a for a in args if a not in known]
assert len(rest) == len(args) - len(known), args
target, elem_bytes, dim_m, dim_n, i, include, c, source, o, out = rest
assert (i, c, o) == ("-I", "-c", "-o"), rest
assert target in ("--target=aie2-none-unknown-elf", "--target=aie2p-none-unknown-elf"), target
assert os.path.isfile(os.path.join(include, "aie_api", "aie.hpp")), include
assert os.path.isfile(source) and os.path.basename(source) == "transpose.cc", source
open(out, "w").write(" ".join((target, elem_bytes, dim_m, dim_n)))
"""

AIECC = """
expected = {
    "--no-compile-host", "--no-xchesscc", "--no-xbridge", "--aie-generate-xclbin",
    "--xclbin-name=design.xclbin", "--aie-generate-npu-insts", "--npu-insts-name=insts.bin",
    "--peano=" + os.environ["TEST_PEANO"], "design.mlir",
}
assert set(args) == expected and len(args) == len(expected), args
assert open("design.mlir").read() == "module {}"
assert shutil.which("xclbinutil"), os.environ["PATH"]
print("aiecc says something")
kernel = open("transpose.o").read()
open("design.xclbin", "w").write(os.environ.get("TEST_XCLBIN", "compiled with " + kernel))
open("insts.bin", "wb").write(bytes.fromhex(os.environ["TEST_WORDS"]))
"""


class Tools:
    """An installation of every tool in one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {"PATH": str(root / "bin")}
        header = root / "mlir_aie/include/aie_api/aie.hpp"
        header.parent.mkdir(parents=True)
        header.touch()
        self.write("mlir_aie/python/aie/iron/__init__.py", "")
        self.write("site/llvm-aie/bin/clang++", CLANG)
        self.write("mlir_aie/bin/aiecc", AIECC)
        self.write("bin/xclbinutil", "")

    def write(self, path: str, body: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        header = f"#!{sys.executable}\nimport os, shutil, sys\nargs = sys.argv[1:]\n"
        file.write_text(header + body)
        file.chmod(0o755)
        return file

    def find(self) -> Toolchain:
        packages = [str(self.root / "site"), str(self.root / "mlir_aie/python")]
        return FIND(self.environment, packages, self.root)
