"""The package imports wherever Python is started, and says which version it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import hptp as hp
from hptp import _core

ROOT = Path(__file__).parent.parent.parent


def run_python(*arguments: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_version() -> None:
    assert hp.__version__ == version("hptp")


def test_imports_from_any_folder(tmp_path: Path) -> None:
    (tmp_path / "hptp").mkdir()  # an unrelated folder of the same name must not get in the way
    for folder in (ROOT, ROOT / "tests", tmp_path):
        assert run_python("-c", "import hptp; print(hptp.__version__)", cwd=folder)


def test_source_tree_finds_the_core_of_an_installed_wheel(tmp_path: Path) -> None:
    """Started in the repository, Python imports its `hptp/`, which has no compiled core."""
    installed = tmp_path / "hptp"
    installed.mkdir()
    (installed / "__init__.py").touch()
    shutil.copy(_core.__file__, installed)
    code = "import hptp, hptp._core; print(hptp.__file__); print(hptp._core.__file__)"
    # -S: without the hooks of an editable install, which would find the core by other means.
    found = run_python("-S", "-c", code, cwd=ROOT, PYTHONPATH=str(tmp_path)).splitlines()
    assert Path(found[0]).parent == ROOT / "hptp"
    assert Path(found[1]).parent == installed
