"""Complete lines of the local ``%tpu``: the terminal's commands, and those that exist only in ``%tpu``."""

from __future__ import annotations

from jupyter_tpu.cli.arguments import COMMANDS
from jupyter_tpu.commands.grammar import NOTEBOOK, TERMINAL
from jupyter_tpu.local.commands import ATTACH, DETACH
from jupyter_tpu.notebook.magics.completion import completed


def completions(line: str) -> list[str]:
    """Return the completions at the end of `line`: commands first, then the command's arguments."""
    known = {each.name: each.words(NOTEBOOK) for each in (ATTACH, DETACH)}
    known |= {name: each.words(TERMINAL) for name, each in COMMANDS.items() if not each.needs_terminal}
    before = line.split()[1:] if line[-1:].isspace() else line.split()[1:-1]
    return completed(known, before)
