"""Standard input, output and error of a command line, whatever a caller did with them."""

from __future__ import annotations

import os
import sys


def open_missing_streams() -> None:
    """Give the process a null device for each standard stream that it was started without (``2>&-``).

    Called first in a program. Python leaves such a stream None, which breaks whoever writes to it, and its descriptor
    goes to the next socket or file that is opened: what is meant for a terminal would end up in the journal.
    """
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            # the lowest free number: the missing one, since those below it are open by now
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, opened == descriptor)
            setattr(sys, name, open(opened, mode, encoding="utf-8", errors="backslashreplace", closefd=False))  # noqa: SIM115 - open as long as the process


def write_answer(text: str) -> int:
    """Write what a command answers to standard output. Returns the exit status: 0, or 1 when it takes nothing."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # else it would be tried, and fail, once more at the end of the process
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # `… | head`
            sys.stderr.write(f"error: The answer could not be written: {error.strerror or error}.\n")
            sys.stderr.write("   do: Free disk space, or send standard output elsewhere, and try again.\n")
        return 1
    return 0
