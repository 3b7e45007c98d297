"""Describe commands as data, and parse them with argparse for a terminal or a notebook's magic."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from jupyter_tpu.durations import parse_duration
from jupyter_tpu.errors import BadInput, Text, plain
from jupyter_tpu.i18n import _, wrapped

TERMINAL, NOTEBOOK = "terminal", "notebook"
"""The places where a command can be used. In a notebook, the command is for the node that the kernel runs on."""

# Maximum length in characters of argparse's messages, which quote the user's input.
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument or option of a command.

    Attributes:
        names: as for argparse's ``add_argument``.
        place: the only place (terminal or notebook) where the argument exists; empty for both places.
        suggestions: values offered by tab completion.
        settings: the keyword arguments of ``add_argument``.
    """

    names: tuple[str, ...]
    place: str
    suggestions: tuple[str, ...]
    settings: Mapping[str, Any]

    @property
    def is_option(self) -> bool:
        """Whether the argument's name begins with a hyphen."""
        return self.names[0].startswith("-")


def argument(*names: str, place: str = "", suggestions: Sequence[str] = (), **settings: Any) -> Argument:
    """Return an `Argument`. An omitted string argument is empty, unless `settings` has a default."""
    if "default" not in settings and not settings.keys() & {"type", "action"} and settings.get("nargs", "?") == "?":
        settings["default"] = ""
    return Argument(names, place, (*suggestions, *(settings.get("choices") or ())), settings)


def flag(*names: str, place: str = "", **settings: Any) -> Argument:
    """Return an option without a value."""
    return argument(*names, place=place, action="store_true", **settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of the terminal, of ``%tpu``, or of both.

    Attributes:
        help: the command's line in the terminal's help; empty if the command exists only in notebooks.
        here: the command's line in the help of ``%tpu``, written as a sentence about this node; empty if the command
            exists only in the terminal.
        examples: example lines for a notebook, each with an explanation.
        arguments: the arguments; a tuple contains mutually exclusive options.
        description: the introduction of the command's help in the terminal; may be empty.
        passes_on: whether arguments after ``--`` are passed to another program.
        needs_terminal: whether the command works only in a terminal, not in a cell.
        aliases: other names for the command in a notebook.
    """

    name: str
    help: str = ""
    here: str = ""
    examples: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[Argument | tuple[Argument, ...]] = ()
    description: str | None = None
    passes_on: bool = False
    needs_terminal: bool = False
    aliases: tuple[str, ...] = ()

    def all_arguments(self, place: str) -> Iterator[Argument]:
        """Yield the arguments that the command shows in `place`, a terminal or a notebook."""
        for each in self.arguments:
            for one in each if isinstance(each, tuple) else (each,):
                if one.place in ("", place) and one.settings.get("help") != argparse.SUPPRESS:
                    yield one

    def words(self, place: str) -> list[str]:
        """Return the words that tab completion offers after the command's name: values, then long options."""
        known = list(self.all_arguments(place))
        values = [value for each in known if not each.is_option for value in each.suggestions]
        return [*values, *(name for each in known for name in each.names if name.startswith("--"))]


class UsageError(BadInput):
    """The error for a command line that can't be parsed.

    Attributes:
        parser: the command's parser, for its usage line.
    """

    code = "usage"
    parser: argparse.ArgumentParser


class CommandParser(argparse.ArgumentParser):
    """A parser that raises `UsageError` instead of printing and exiting."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=HelpFormatter, **settings)

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` instead of printing and exiting."""
        error = UsageError(
            plain(message, _LONGEST), exists="Nothing was done.", hint=Text("See `{prog} --help`.", prog=self.prog)
        )
        error.parser = self
        raise error


def add_arguments(parser: argparse.ArgumentParser, command: Command, place: str) -> None:
    """Add a command's arguments to its parser; `place` says whether the command is for a terminal or a notebook."""
    for each in command.arguments:
        group = parser.add_mutually_exclusive_group() if isinstance(each, tuple) else parser
        for one in each if isinstance(each, tuple) else (each,):
            if one.place in ("", place):
                group.add_argument(*one.names, **_translated(one.settings))


def _translated(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    text = settings.get("help", argparse.SUPPRESS)
    return settings if text == argparse.SUPPRESS else {**settings, "help": _(text)}


class HelpFormatter(argparse.HelpFormatter):
    """A help formatter that wraps lines by display width; see `i18n.wrapped`."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(f"{indent}{line}" for line in wrapped(text, width - len(indent)))


def parse_words(command: Command, words: Sequence[str], magic: str = "%tpu") -> argparse.Namespace:
    """Parse the words after a command's name in a notebook's magic.

    Args:
        command: the command.
        words: the words after the command's name.
        magic: the beginning of the line, for error messages.

    Raises:
        BadInput: the command doesn't accept the words.
    """
    # Don't allow abbreviated options: a wrong guess could stop or delete a node.
    parser = CommandParser(prog=f"{magic} {command.name}".rstrip(), add_help=False, allow_abbrev=False)
    add_arguments(parser, command, NOTEBOOK)
    try:
        return parser.parse_args(words)
    except UsageError as error:
        hint = Text("`{prog} --help` lists the valid arguments.", prog=parser.prog)
        raise BadInput(_sentence(error.message), exists="Nothing was done.", hint=hint) from None


_CLEARER: Mapping[str, Text] = {
    r"argument (\S+): expected one argument": Text("{argument} requires a value."),
    r"unrecognized arguments: (.*)": Text("{argument} is not a valid argument here."),
    r"the following arguments are required: (.*)": Text("{argument} is missing."),
    r"argument (.*)": Text("{argument}."),
}
"""Messages of argparse, each with the clearer text that a notebook shows instead."""


def _sentence(message: str) -> str:
    for pattern, text in _CLEARER.items():
        if found := re.fullmatch(pattern, message):
            return text.with_arguments(argument=found[1])
    return Text("{message}.", message=f"{message[:1].upper()}{message[1:]}")


# -- types of values


def whole_number(most: int) -> Callable[[str], int]:
    """Return an argparse type for whole numbers from 1 to `most`."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
            raise argparse.ArgumentTypeError(
                _("{text} is not a whole number from 1 to {most}", text=f"{text[:40]!r}", most=f"{most:,}")
            )
        return int(text)

    return parse


def duration(option: str) -> Callable[[str], float]:
    """Return an argparse type that converts 30m, 6h or 2d to seconds; the error message mentions `option`."""

    def parse(text: str) -> float:
        seconds = parse_duration(text)
        if not seconds:
            raise BadInput(
                Text("{text} is not a duration.", text=f"{text[:40]!r}"),
                exists="Nothing was changed.",
                hint=Text("Use a value such as {option} 30m, 6h or 2d.", option=option),
            )
        return seconds

    return parse


OFF = "off"
"""The value that turns a rule off, in place of a duration."""


def duration_or_off(option: str) -> Callable[[str], float | str]:
    """Return an argparse type for durations and ``off``: durations become seconds, and ``off`` stays as it is."""
    parse = duration(option)
    return lambda text: text if text == OFF else parse(text)
