"""The command line: help that leads on, exit statuses, one-sentence errors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hptp as hp
from hptp import cli


def run(*argv: str) -> int:
    """`hptp *argv` in this process: its exit status."""
    try:
        return cli.main(argv)
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.mark.parametrize("name", ["", *cli.commands()])
def test_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*name.split(), "--help") == 0
    printed = capsys.readouterr().out
    assert "hptp " in printed
    if not name:
        assert all(f"\n    {command}" in printed for command in cli.commands())


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"hptp {hp.__version__}\n"


@pytest.mark.parametrize("argv", [[], ["no-such-command"], ["devices", "--no-such-option"]])
def test_wrong_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*argv) == 2
    assert "usage: hptp" in capsys.readouterr().err


def test_devices(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("devices") == 0
    assert capsys.readouterr().out.startswith("cpu  yes ")
    assert run("devices", "--json") == 0
    assert [info["name"] for info in json.loads(capsys.readouterr().out)] == [
        info.name for info in hp.devices()
    ]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_console_script_survives_a_closed_pipe(unbuffered: str) -> None:
    program = "import sys; from hptp.cli import main; sys.exit(main())"
    producer = subprocess.Popen(
        [sys.executable, "-c", program, "devices"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert producer.stdout is not None
    producer.stdout.close()
    _, errors = producer.communicate()
    assert producer.returncode == 0
    assert errors == b""


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    problem = ["--shape", "64,32", "--perm", "1,0", "--dtype", "u8"]
    assert run("explain", *problem) == 0
    printed = capsys.readouterr().out
    assert printed == hp.explain((64, 32), (1, 0), dtype="uint8") + "\n"
    assert run("explain", *problem, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["device"], found["problem"]["shape"]) == ("cpu", [32, 64])


def test_explain_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros((64, 32), "u2"))
    assert run("explain", str(tmp_path / "x.npy"), "--perm", "1,0") == 0
    assert "2-byte elements" in capsys.readouterr().out
    assert run("explain", str(tmp_path / "x.npy"), "--perm", "1,0", "--dtype", "f32") == 1
    assert "uint16" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [("--perm", "a,b"), ("--shape", "3,-1"), ("--dtype", "f33"), ("--device", "abacus")],
)
def test_wrong_values_are_quoted(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = {"--shape": "3,4", "--perm": "1,0", option: value}
    assert run("explain", *(f"{name}={text}" for name, text in arguments.items())) == 2
    assert value in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_everything(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("completion", shell) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in cli.commands())
    assert ("-l perm" if shell == "fish" else "--perm") in script


def test_bash_completes(capsys: pytest.CaptureFixture[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    assert run("completion", "bash") == 0
    script = capsys.readouterr().out

    def completed(*words: str) -> list[str]:
        line = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _hptp"
        program = f'{script}{line}; echo "${{COMPREPLY[@]}}"'
        done = subprocess.run([bash, "-c", program], capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert completed("hptp", "per") == ["permute"]
    assert completed("hptp", "permute", "--pe") == ["--perm"]
