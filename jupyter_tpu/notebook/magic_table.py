"""The table of ``%tpu``: its words, what a line of it does, and the help that follows from both."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from jupyter_tpu.errors import BadInput
from jupyter_tpu.notebook import magic_brakes, magic_chips, magic_doctor, magic_machine, magic_money, magic_status
from jupyter_tpu.notebook.magic_shown import Section, Shown
from jupyter_tpu.notebook.magic_words import Here, Word

HELP = ("--help", "-h", "help")

WORDS: Mapping[str, Word] = {
    word.name: word
    for word in (
        *magic_chips.WORDS,
        *magic_brakes.WORDS,
        *magic_money.WORDS,
        *magic_machine.WORDS,
        *magic_doctor.WORDS,
    )
}
"""Those on a node, by name."""


def perform(line: str, here: Here) -> Shown:
    """Do what a line of ``%tpu`` says.

    Raises:
        BadInput: it says nothing that we know.
        TpuError: it failed.
    """
    first, *rest = line.split() or [""]
    if first in HELP:
        return _help_of_all() if not rest or rest[0] in HELP else help_of(_word(rest[0]))
    word = _word(first)
    if set(rest) & {"--help", "-h"}:
        return help_of(word)
    try:
        return word.act(here, rest)
    except BadInput as error:
        error.hint = error.hint or f"%tpu {word.name} --help says what it takes.".replace("  ", " ")
        raise


def _word(name: str) -> Word:
    if not name:
        return magic_status.WORD
    if name in WORDS:
        return WORDS[name]
    near = get_close_matches(name[:40], WORDS, n=1)
    meant = f"Did you mean %tpu {near[0]}? " if near else ""
    raise BadInput(f"%tpu does not know {name[:60]!r}.", hint=f"{meant}It knows: {', '.join(WORDS)}.")


def help_of(word: Word) -> Shown:
    """What can be written, and what it does."""
    return Shown(sections=[Section(lines=[word.summary], header=("line", "meaning"), rows=list(word.usage.items()))])


def _help_of_all() -> Shown:
    words = (magic_status.WORD, *WORDS.values())
    rows = [(f"%tpu {word.name}".rstrip(), word.summary) for word in words]
    last = Section(lines=["%tpu WORD --help says more; %%tpu_time times a cell, %tpu_init makes the chips usable."])
    return Shown(sections=[Section(header=("line", "meaning"), rows=rows), last])
