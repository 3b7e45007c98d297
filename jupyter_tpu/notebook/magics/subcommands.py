"""The table of ``%tpu``: its subcommands, how a line is run, and the help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches

from jupyter_tpu.errors import BadInput
from jupyter_tpu.notebook.display import MagicOutput, Section
from jupyter_tpu.notebook.magics import autostop, chips, doctor, env_logs, money, status
from jupyter_tpu.notebook.magics.arguments import MagicContext, Subcommand

HELP = ("--help", "-h", "help")

SUBCOMMANDS: Mapping[str, Subcommand] = {
    word.name: word
    for word in (
        *chips.SUBCOMMANDS,
        *autostop.SUBCOMMANDS,
        *money.SUBCOMMANDS,
        *env_logs.SUBCOMMANDS,
        *doctor.SUBCOMMANDS,
    )
}
"""The subcommands in a kernel on a node, by name."""


_RENAMED: Mapping[str, str] = {"free": "release", "keep": "extend", "who": "ps"}
"""Former names of subcommands; they work for one more minor version."""


def run_line(line: str, context: MagicContext) -> MagicOutput:
    """Run a line of ``%tpu``, and return its output.

    Raises:
        BadInput: the line has an unknown subcommand or argument.
        TpuError: the subcommand failed.
    """
    first, *rest = line.split() or [""]
    if first in _RENAMED:
        shown = run_line(" ".join([_RENAMED[first], *rest]), context)
        note = f"%tpu {first} is now %tpu {_RENAMED[first]}. The old name works until the next version."
        return replace(shown, sections=[*shown.sections, Section(lines=[note])])
    if first in HELP:
        return _help_of_all() if not rest or rest[0] in HELP else help_of(_word(rest[0]))
    word = _word(first)
    if set(rest) & {"--help", "-h"}:
        return help_of(word)
    try:
        return word.act(context, rest)
    except BadInput as error:
        # The bare `%tpu` has an empty name, which would leave two spaces.
        error.hint = error.hint or f"%tpu {word.name} --help shows what it accepts.".replace("  ", " ")
        raise


def _word(name: str) -> Subcommand:
    name = _RENAMED.get(name, name)
    if not name:
        return status.SUBCOMMAND
    if name in SUBCOMMANDS:
        return SUBCOMMANDS[name]
    # The length is cut because difflib takes quadratic time.
    near = get_close_matches(name[:40], SUBCOMMANDS, n=1)
    meant = f"Did you mean %tpu {near[0]}? " if near else ""
    raise BadInput(f"%tpu has no command {name[:60]!r}.", hint=f"{meant}Its commands: {', '.join(SUBCOMMANDS)}.")


def help_of(word: Subcommand) -> MagicOutput:
    """Return the help of one subcommand."""
    return MagicOutput(
        sections=[Section(lines=[word.summary], header=("line", "meaning"), rows=list(word.usage.items()))]
    )


def _help_of_all() -> MagicOutput:
    words = (status.SUBCOMMAND, *SUBCOMMANDS.values())
    rows = [(f"%tpu {word.name}".rstrip(), word.summary) for word in words]
    more = "%tpu COMMAND --help explains one. %%tpu_time times a cell; %tpu_init starts a framework on the chips."
    last = Section(lines=[more])
    return MagicOutput(sections=[Section(header=("line", "meaning"), rows=rows), last])
