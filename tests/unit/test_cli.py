"""The command line: help that leads on, exit statuses, one-sentence errors."""

from __future__ import annotations

import json
import subprocess
import sys

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
        assert all(f"  {command} " in printed for command in cli.commands())


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


def test_console_script_survives_a_closed_pipe() -> None:
    program = "import sys; from hptp.cli import main; sys.exit(main())"
    producer = subprocess.Popen(
        [sys.executable, "-c", program, "devices"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert producer.stdout is not None
    producer.stdout.close()
    _, errors = producer.communicate()
    assert producer.returncode == 0
    assert errors == b""
