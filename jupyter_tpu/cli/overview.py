"""`jupyter tpu --help`: the commands by what they are for."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from difflib import SequenceMatcher, get_close_matches
from typing import TYPE_CHECKING, NoReturn

from jupyter_tpu.cli.terminal import plain
from jupyter_tpu.errors import TpuError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    Commands = _SubParsersAction[argparse.ArgumentParser]

_DESCRIPTION = "Jupyter on Cloud TPU VMs. Nodes cost money while they are READY; `jupyter tpu list` shows them all."
_MORE = "`jupyter tpu COMMAND --help` says more of one of them."

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Nodes": ("list", "describe", "create", "search", "queue", "stop", "start", "delete", "recover"),
    "Notebooks on them": ("kernels", "env", "kernelspec", "ssh", "ssh-config"),
    "Their chips": ("top", "ps", "release", "doctor"),
    "Auto-stop": ("autostop", "extend"),
    "Money": ("cost", "budget", "grant", "quota", "cleanup", "audit"),
    "Without a cloud": ("demo", "emulator", "version"),
}

_ENDING = frozenset({"cleanup", "delete", "stop"})
_A_SLIP = 0.75
"""Likeness of words that differ by a letter or two: of `delet` and `delete` it is 0.9, of `stpo` and `stop` 0.75."""


class UsageError(TpuError):
    """The line cannot be understood as it was typed.

    Attributes:
        parser: that of the command.
    """

    code = "usage"
    status = 400
    parser: argparse.ArgumentParser


class CommandParser(argparse.ArgumentParser):
    """A parser that leaves it to its caller how an error is told."""

    def error(self, message: str) -> NoReturn:
        error = UsageError(message, exists="Nothing was done.", hint=f"See {self.prog} --help.")
        error.parser = self
        raise error


class Overview(CommandParser):
    """The parser of all commands; `commands` takes them."""

    def __init__(self) -> None:
        super().__init__(prog="jupyter tpu", usage="%(prog)s COMMAND ...", description=_DESCRIPTION, epilog=_MORE)
        self.commands: Commands = self.add_subparsers(
            prog="jupyter tpu", metavar="COMMAND", required=True, parser_class=CommandParser
        )

    def format_help(self) -> str:
        """The same on any width of the terminal: names in one column, what they do in the next."""
        helps = {each.dest: each.help or "" for each in self.commands._choices_actions}
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, (), ())
        formatter.add_text(self.description)
        for title, names in GROUPS.items():
            formatter.start_section(title)
            formatter.add_arguments([argparse.Action((), name, metavar=name, help=helps[name]) for name in names])
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def refuse(self, name: str) -> NoReturn:
        """A command that there is not."""
        near = next((each for each in get_close_matches(name, self.commands.choices) if _may_be_meant(name, each)), "")
        meant = f"Did you mean `jupyter tpu {near}`?" if near else "`jupyter tpu --help` lists all."
        self.error(f"there is no command {plain(name)[:60]!r}. {meant}")


def _may_be_meant(typed: str, command: str) -> bool:
    """Who looks for a word that there is not must not be led to one that ends nodes: only a slip of the keys is."""
    return command not in _ENDING or SequenceMatcher(None, typed, command).ratio() >= _A_SLIP
