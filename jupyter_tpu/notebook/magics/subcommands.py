"""The subcommands of ``%tpu`` in a kernel on a node: find their functions, run a line, and return the help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches

from jupyter_tpu.commands.grammar import NOTEBOOK, Command, parse_words
from jupyter_tpu.commands.shared import ON_NODE, RENAMED, RENAMED_ON_NODE, STATUS
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.notebook.display import MagicOutput, Section
from jupyter_tpu.notebook.magics import autostop, chips, doctor, env_logs, money, status, workers
from jupyter_tpu.notebook.magics.context import MagicContext

HELP = ("--help", "-h", "help")

_MODULES = (status, chips, autostop, money, env_logs, doctor, workers)


def _acts() -> dict[str, Callable[..., MagicOutput]]:
    """Return the function of each command. The function has the same name as the command.

    Each function gets the context and, if its command takes arguments, the parsed arguments.
    """
    functions = {
        name: act
        for module in _MODULES
        for name, act in vars(module).items()
        if getattr(act, "__module__", "") == module.__name__
    }
    return {"": status.status, **{name: functions[name] for name in ON_NODE}}


_ACTS = _acts()

_ALIASES: Mapping[str, str] = {alias: each.name for each in ON_NODE.values() for alias in each.aliases}

_OLD_NAMES: Mapping[str, str] = {
    **RENAMED_ON_NODE,
    **{old: now for old, (now, *options) in RENAMED.items() if not options and now in ON_NODE},
}
"""Former names of commands; they work for one more minor version."""


def run_line(line: str, context: MagicContext) -> MagicOutput:
    """Run a line of ``%tpu`` and return its output.

    Raises:
        BadInput: the line has an unknown command or argument.
        TpuError: the command failed.
    """
    first, *rest = line.split() or [""]
    if first in _OLD_NAMES:
        shown = run_line(" ".join([_OLD_NAMES[first], *rest]), context)
        note = Text(
            "`%tpu {old}` is now `%tpu {name}`. The old name works until the next version.",
            old=first,
            name=_OLD_NAMES[first],
        )
        return replace(shown, sections=[*shown.sections, Section(lines=[note])])
    if first in HELP:
        return _help_of_all() if not rest or rest[0] in HELP else help_of(_command(rest[0]))
    command = _command(first)
    if set(rest) & {"--help", "-h"}:
        return help_of(command)
    act, options = _ACTS[command.name], parse_words(command, rest)
    return act(context, options) if vars(options) else act(context)


def _command(name: str) -> Command:
    known = {"": STATUS, **ON_NODE}
    name = _OLD_NAMES.get(name, _ALIASES.get(name, name))
    if name in known:
        return known[name]
    # Limit the length, because difflib takes quadratic time.
    near = get_close_matches(name[:40], ON_NODE, n=1)
    hint = Text("Use one of these commands: {commands}.", commands=", ".join(ON_NODE))
    if near:
        hint = Text("Did you mean `%tpu {command}`? {commands}", command=near[0], commands=hint)
    raise BadInput(Text("%tpu has no command {name}.", name=f"{name[:60]!r}"), hint=hint)


def help_of(command: Command) -> MagicOutput:
    """Return the help of one command: common examples, then its options."""
    options = [
        (", ".join(each.names), _text(each.settings["help"]))
        for each in command.all_arguments(NOTEBOOK)
        if each.is_option
    ]
    examples = [(line, _text(meaning)) for line, meaning in command.examples.items()]
    sections = [Section(lines=[_text(command.here)], header=(Text("command"), Text("meaning")), rows=examples)]
    if options:
        sections.append(Section(header=(Text("option"), Text("meaning")), rows=options))
    return MagicOutput(sections=sections)


def _text(text: str) -> Text:
    """Return a command's text as a `Text`, so that it can be translated."""
    return text if isinstance(text, Text) else Text(text)


def _help_of_all() -> MagicOutput:
    rows = [(f"%tpu {command.name}".rstrip(), _text(command.here)) for command in (STATUS, *ON_NODE.values())]
    more = Text(
        "`%tpu COMMAND --help` explains a command. `%%tpu_time` times a cell; `%tpu_init` starts a framework "
        "on the chips."
    )
    last = Section(lines=[more])
    return MagicOutput(sections=[Section(header=(Text("command"), Text("meaning")), rows=rows), last])
