"""``jupyter tpu …``: the panel's work from a terminal.

One module for each group of commands, imported once one is typed. Modules import what is heavy (Google's client,
asyncssh, Jupyter) inside their functions, because `jupyter tpu --help` and a mistyped option must answer at once.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the result is the exit code: 0 done, 1 refused or failed, 2 used wrongly."""
    from jupyter_tpu.cli.command_line import run

    return run(argv)
