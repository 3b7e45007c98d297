"""Make standard input, output and error usable in a command, even if the caller closed them."""

from __future__ import annotations

import os
import sys


def open_missing_streams() -> None:
    """Give the process a null device for each standard stream that it was started without (``2>&-``).

    Called first in a program. Python sets such a stream to None, which breaks every write to it, and its descriptor
    goes to the next socket or file that is opened: output meant for a terminal would end up in the journal.
    """
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            # Gets the lowest free number, which is the missing one: those below it are open by now.
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, opened == descriptor)
            setattr(sys, name, open(opened, mode, encoding="utf-8", errors="backslashreplace", closefd=False))  # noqa: SIM115 - open as long as the process


def write_answer(text: str) -> int:
    """Write a command's answer to standard output. Returns the exit status: 0, or 1 if it can't be written."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Otherwise Python would flush, and fail, once more when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # `… | head` closes the pipe, and that is not an error
            sys.stderr.write(f"error: The answer could not be written: {error.strerror or error}.\n")
            sys.stderr.write("   do: Free disk space, or send standard output elsewhere, and try again.\n")
        return 1
    return 0
