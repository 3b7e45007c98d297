"""The parser of all commands, and the help that lists them by purpose."""

from __future__ import annotations

import argparse
from difflib import SequenceMatcher, get_close_matches
from typing import TYPE_CHECKING, NoReturn

from jupyter_tpu.cli.arguments import COMMANDS, GROUPS
from jupyter_tpu.commands.grammar import TERMINAL, CommandParser, add_arguments
from jupyter_tpu.errors import Text, plain
from jupyter_tpu.i18n import _

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    Commands = _SubParsersAction[argparse.ArgumentParser]

_DESCRIPTION = Text(
    "Jupyter on Cloud TPU VMs. Nodes cost money while they are READY; `jupyter tpu list` shows them all."
)
_MORE = Text("`jupyter tpu COMMAND --help` shows the options of a command.")

_DESTRUCTIVE = frozenset({"cleanup", "delete", "stop"})
_TYPO_SIMILARITY = 0.75
"""Similarity (0 to 1) from which a word counts as a typo: 0.9 for `delet` and `delete`, 0.75 for `stpo` and `stop`."""


class Overview(CommandParser):
    """The parser of all commands.

    Args:
        command: the command to parse, so that only its arguments are added; if unknown, all commands' arguments are
            added.
    """

    def __init__(self, command: str = "") -> None:
        super().__init__(prog="jupyter tpu", usage="%(prog)s COMMAND ...", description=_(_DESCRIPTION), epilog=_(_MORE))
        self.commands: Commands = self.add_subparsers(
            prog="jupyter tpu", metavar="COMMAND", required=True, parser_class=CommandParser
        )
        for each in COMMANDS.values():
            # the emulator's own parser handles --help
            parser = self.commands.add_parser(
                each.name,
                help=_(each.help),
                description=each.description and _(each.description),
                add_help=each.name != "emulator",
            )
            parser.set_defaults(command=each, parser=parser)
            if command not in COMMANDS or command == each.name:
                add_arguments(parser, each, TERMINAL)

    def format_help(self) -> str:
        """Return the help, grouped by purpose, with names and summaries in two columns."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, (), ())
        formatter.add_text(self.description)
        # argparse can't group commands, and a flat list of thirty is hard to read for newcomers
        for title, commands in GROUPS.items():
            formatter.start_section(_(title))
            formatter.add_arguments([argparse.Action((), each.name, help=_(each.help)) for each in commands])
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def refuse(self, name: str) -> NoReturn:
        """Raise the error for an unknown command. The error suggests the command with the most similar name."""
        near = next((each for each in get_close_matches(name, self.commands.choices) if _may_suggest(name, each)), "")
        meant = (
            _("Did you mean `jupyter tpu {near}`?", near=near)
            if near
            else _("`jupyter tpu --help` lists all commands.")
        )
        self.error(_("there is no command {name}. {meant}", name=f"{plain(name)[:60]!r}", meant=meant))


def _may_suggest(typed: str, command: str) -> bool:
    """Return whether to suggest `command`; commands that stop nodes are suggested only for small typos."""
    return command not in _DESTRUCTIVE or SequenceMatcher(None, typed, command).ratio() >= _TYPO_SIMILARITY
