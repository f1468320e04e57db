"""The design's command line.

    python -m aie_design run                   transpose one matrix; parameters in the environment:
                                               M N m n s dtype device kernel (`make run`)
    python -m aie_design xclbin                compile the same design for the NPU (`make xclbin`)
    python -m aie_design disassemble FILE ...  print instruction streams (insts.bin) in words

Exit status: 0 done, 1 failed, 2 wrong parameters or usage.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from aie_design.instructions import disassemble, from_bytes
from hptp.errors import DeviceError, PlanError


def main(argv: Sequence[str]) -> int:
    try:
        match argv:
            case ["run"]:
                from aie_design.run import run

                return run(os.environ)
            case ["xclbin"]:
                from aie_design.build import build
                from aie_design.run import Parameters

                parameters = Parameters.from_environment(os.environ)
                print(build(parameters.plan, parameters.kernel).folder)
                return 0
            case ["disassemble", *files] if files:
                for name in files:
                    print(disassemble(from_bytes(Path(name).read_bytes())))
                return 0
    except PlanError as error:
        return _complain(error, 2)
    except (DeviceError, OSError) as error:
        return _complain(error, 1)
    print(__doc__.strip(), file=sys.stderr)
    return 2


def _complain(error: Exception, status: int) -> int:
    """One line for each thing that is wrong."""
    sys.stdout.flush()
    for line in str(error).splitlines():
        print(f"error: {line}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
