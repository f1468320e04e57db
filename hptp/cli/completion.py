"""Print a script that makes a shell complete hptp's sub-commands and options.

examples:
  source <(hptp completion bash)                 in ~/.bashrc
  source <(hptp completion zsh)                  in ~/.zshrc, after compinit
  hptp completion fish | source                  in ~/.config/fish/config.fish
"""

from __future__ import annotations

import argparse

HELP = "complete sub-commands and options in bash, zsh or fish"

BASH = """\
_hptp() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} options
  case ${{COMP_WORDS[1]}} in
{cases}
    *) options="{commands}" ;;
  esac
  [[ $COMP_CWORD == 1 ]] && options="{commands}"
  COMPREPLY=($(compgen -W "$options" -- "$word"))
}}
complete -o default -F _hptp hptp
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(args: argparse.Namespace) -> int:
    options = _options_of_commands()
    print(_fish(options) if args.shell == "fish" else _bash(options, args.shell), end="")
    return 0


def _options_of_commands() -> dict[str, dict[str, str]]:
    """For each sub-command, its options and their help, from the parsers themselves."""
    from hptp.cli import commands

    found = {}
    for name, command in commands().items():
        parser = argparse.ArgumentParser(prog=name)
        command.add_arguments(parser)
        formatter = parser._get_formatter()
        found[name] = {
            option: formatter._expand_help(action) if action.help else ""
            for action in parser._actions
            for option in action.option_strings
        }
    return found


def _bash(options: dict[str, dict[str, str]], shell: str) -> str:
    cases = [f'    {name}) options="{" ".join(found)}" ;;' for name, found in options.items()]
    script = BASH.format(cases="\n".join(cases), commands=" ".join(options))
    return "autoload -U +X bashcompinit && bashcompinit\n" + script if shell == "zsh" else script


def _fish(options: dict[str, dict[str, str]]) -> str:
    from hptp.cli import commands

    lines = [
        f"complete -c hptp -f -n __fish_use_subcommand -a {name} -d {_quoted(command.HELP)}"
        for name, command in commands().items()
    ]
    for name, found in options.items():
        for option, text in found.items():
            kind = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            seen = f"'__fish_seen_subcommand_from {name}'"
            lines.append(f"complete -c hptp -n {seen} {kind} -d {_quoted(text)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
