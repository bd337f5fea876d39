"""``manyhands completion``: what a shell needs to complete commands, options and their values."""

from __future__ import annotations

import argparse
import shlex
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from manyhands.cli.options import SHAPES, Commands, add_command

SHELLS = ("bash", "zsh", "fish")


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "completion",
        run,
        about="Print a script that lets the shell complete commands and options.",
        examples="""
            bash > ~/.local/share/bash-completion/completions/manyhands
            zsh > ~/.zfunc/_manyhands
            fish > ~/.config/fish/completions/manyhands.fish
        """,
    )
    parser.add_argument("shell", choices=SHELLS, help="for which shell")


def run(args: Namespace) -> None:
    """Print the script."""
    if args.shown is not None:
        raise ValueError("a script for a shell has one form only; leave out --format")
    from manyhands.cli import _parser

    commands = list(_commands(_parser()))
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](commands), end="")


@dataclass(frozen=True)
class Option:
    """An option: its names, what it does, whether it takes a value, and which values if those are known."""

    names: tuple[str, ...]
    about: str
    takes_value: bool
    values: tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """A command: its name, what it does, its options, and the words it can begin with."""

    name: str
    about: str
    options: tuple[Option, ...]
    words: tuple[str, ...]


def _commands(parser: argparse.ArgumentParser) -> Iterator[Command]:
    """What the parser knows."""
    (sub,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    about = {each.dest: str(each.help) for each in sub._choices_actions}
    for name, command in sub.choices.items():
        options = tuple(_option(action) for action in command._actions if action.option_strings)
        words = tuple(
            str(word) for action in command._actions if not action.option_strings for word in action.choices or ()
        )
        yield Command(name, about[name], options, words)


def _option(action: argparse.Action) -> Option:
    values = SHAPES if action.dest == "shown" and action.nargs is None else action.choices or ()
    help_text: Any = action.help or ""
    about = help_text.partition(" (")[0].partition(":")[0].partition(";")[0]
    return Option(tuple(action.option_strings), about, action.nargs != 0, tuple(map(str, values)))


def _bash(commands: list[Command]) -> str:
    """Options by command, values by option; files where neither is wanted."""
    cases, values = [], []
    for command in commands:
        words = [*command.words, *(name for option in command.options for name in option.names)]
        cases.append(f"    {command.name}) words={shlex.quote(' '.join(words))} ;;")
        for option in command.options:
            if option.values:
                names = "|".join(f"{command.name}:{name}" for name in option.names)
                values.append(f"    {names}) words={shlex.quote(' '.join(option.values))} ;;")
            elif option.takes_value:
                names = "|".join(f"{command.name}:{name}" for name in option.names)
                values.append(f"    {names}) return ;;")
    names = " ".join(command.name for command in commands)
    return "\n".join(
        [
            "# bash completion of manyhands",
            "_manyhands() {",
            '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="" words="" i',
            "  COMPREPLY=()",
            "  for ((i = 1; i < COMP_CWORD; i++)); do",
            '    if [[ "${COMP_WORDS[i]}" != -* ]]; then command="${COMP_WORDS[i]}"; break; fi',
            "  done",
            '  if [[ -z "$command" ]]; then',
            f'    COMPREPLY=($(compgen -W "{names} --help --version --traceback" -- "$word"))',
            "    return",
            "  fi",
            '  case "$command:$before" in',
            *values,
            "  esac",
            '  [[ -n "$words" ]] || case "$command" in',
            *cases,
            "  esac",
            '  COMPREPLY=($(compgen -W "$words" -- "$word"))',
            "}",
            "complete -o default -F _manyhands manyhands",
            "",
        ]
    )


def _zsh(commands: list[Command]) -> str:
    """A function for each command, by ``_arguments``."""

    def spec(option: Option) -> Iterator[str]:
        about = option.about.replace("[", "(").replace("]", ")").replace(":", " ")
        value = f":value:({' '.join(option.values)})" if option.values else ":value:_files"
        for name in option.names:
            yield shlex.quote(f"{name}[{about}]{value if option.takes_value else ''}")

    lines = ["#compdef manyhands", "", "_manyhands() {", "  local -a commands", "  commands=("]
    lines += [f"    {shlex.quote(f'{command.name}:{command.about}')}" for command in commands]
    lines += [
        "  )",
        "  if (( CURRENT == 2 )); then",
        "    _describe command commands",
        "    return",
        "  fi",
        '  local command="${words[2]}"',
        "  shift words",
        "  (( CURRENT-- ))",
        '  case "$command" in',
    ]
    for command in commands:
        rest = f"'*:word:({' '.join(command.words)})'" if command.words else "'*:file:_files'"
        arguments = " ".join([*(text for option in command.options for text in spec(option)), rest])
        lines.append(f"    {command.name}) _arguments {arguments} ;;")
    # Loaded by the shell at the first completion, it is called at once; sourced, it is only made known.
    begin = 'if [ "$funcstack[1]" = "_manyhands" ]; then _manyhands "$@"; else compdef _manyhands manyhands; fi'
    return "\n".join([*lines, "  esac", "}", "", begin, ""])


def _fish(commands: list[Command]) -> str:
    """A line for each option of each command."""

    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    lines = ["# fish completion of manyhands"]
    for command in commands:
        lines.append(f"complete -c manyhands -n __fish_use_subcommand -f -a {command.name} -d {quoted(command.about)}")
        condition = f"complete -c manyhands -n '__fish_seen_subcommand_from {command.name}'"
        if command.words:
            lines.append(f"{condition} -f -a {quoted(' '.join(command.words))}")
        for option in command.options:
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
            value = f" -x -a {quoted(' '.join(option.values))}" if option.values else " -r" * option.takes_value
            lines.append(f"{condition} {names}{value} -d {quoted(option.about)}")
    return "\n".join([*lines, ""])
