"""``jupyter tpu …``: the panel's work from a terminal.

One module for each group of commands, imported once one is typed. Modules import what is heavy (Google's client,
asyncssh, Jupyter) inside their functions, because `jupyter tpu --help` and a mistyped option must answer at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jupyter_tpu.standard_streams import open_missing_streams

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the result is the exit code: 0 done, 1 refused or failed, 2 used wrongly, 130 interrupted."""
    open_missing_streams()
    try:
        from jupyter_tpu.cli.command_line import run

        return run(argv)
    except KeyboardInterrupt:  # often while it imports; what must say more, as `create`, has caught its own
        sys.stderr.write("Interrupted.\n")
        return _INTERRUPTED
