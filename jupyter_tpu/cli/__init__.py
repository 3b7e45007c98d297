"""The command `jupyter tpu …`, which offers the panel's functions in a terminal.

Start with `command_line`: it maps each command to its module, which is imported only when that command is run. Modules
import heavy packages (Google's client, asyncssh, Jupyter) inside their functions, so that `jupyter tpu --help` and a
mistyped option get an immediate response. This package must not depend on the Jupyter server.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jupyter_tpu.standard_streams import prepare_streams

_INTERRUPTED = 130  # a shell's exit code for a program killed by SIGINT: 128 + 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line.

    Returns:
        The exit code: 0 for success, 1 for refusal or failure, 2 for wrong usage, 130 for an interruption.
    """
    prepare_streams()
    try:
        from jupyter_tpu.cli.command_line import run

        return run(argv)
    except KeyboardInterrupt:  # often during imports; commands that must print more handle it themselves
        sys.stderr.write("Interrupted.\n")
        return _INTERRUPTED
