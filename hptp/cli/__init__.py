"""The `hptp` command: every module in this folder is one sub-command.

A module named `<command>.py` provides `HELP` (one line), `add_arguments(parser)` and `run(args)`,
which returns the exit status; its docstring is what `hptp <command> --help` shows. Modules whose
names start with an underscore are shared helpers. What a command needs it imports in `run`, so that
`hptp --help` stays fast.

Exit status: 0 done, 1 failed (one sentence on stderr), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from functools import partial
from typing import Protocol, cast

from hptp import __version__
from hptp.errors import HptpError

DESCRIPTION = "Permute the axes of tensors at memory speed, on CPUs and AMD NPUs."

EXAMPLES = """\
start here:
  hptp permute images.npy -o planes.npy --perm 0,3,1,2
                               images (N,H,W,C) become planes (N,C,H,W), in a new file
  hptp devices                 what can run here, and why the rest cannot
  hptp explain --shape 1024,768 --perm 1,0 --dtype f32
                               which device, which plan, how long
  hptp COMMAND --help          a command's options and more examples
"""


class Command(Protocol):
    HELP: str
    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


def commands() -> dict[str, Command]:
    """Every sub-command by name."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return {name: cast(Command, importlib.import_module(f"{__name__}.{name}")) for name in names}


def build_parser() -> argparse.ArgumentParser:
    """The whole command line: `hptp` and every sub-command."""
    as_written = partial(argparse.RawDescriptionHelpFormatter, max_help_position=28)
    parser = argparse.ArgumentParser(
        prog="hptp", description=DESCRIPTION, epilog=EXAMPLES, formatter_class=as_written
    )
    parser.add_argument("--version", action="version", version=f"hptp {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in commands().items():
        subparser = subparsers.add_parser(
            name, help=command.HELP, description=command.__doc__, formatter_class=as_written
        )
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    args = build_parser().parse_args(argv)
    try:
        status = cast(int, args.run(args))
        sys.stdout.flush()  # a closed pipe is met here, not at exit
        return status
    except BrokenPipeError:
        # The reader (`| head`) has seen enough. Keep the interpreter from flushing into the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("hptp: interrupted", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:  # NumPy, which only some commands need
        print(f"hptp: {error.name} is not installed: pip install {error.name}", file=sys.stderr)
        return 1
    except OSError as error:
        named = error.filename is not None and error.strerror
        sentence = f"{error.filename}: {error.strerror}" if named else error
        print(f"hptp: {sentence}", file=sys.stderr)
        return 1
    except HptpError as error:
        print(f"hptp: {error}", file=sys.stderr)
        return 1
