"""Make standard input, output and error usable in a command, even if the caller has closed them."""

from __future__ import annotations

import io
import os
import sys


def prepare_streams() -> None:
    """Open missing standard streams, and escape characters that standard output can't encode. Call this first.

    Without the escapes, an emoji in a notebook's name would crash the list of kernels in a locale without UTF-8. On
    standard error, Python already escapes such characters.
    """
    _open_missing_streams()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _open_missing_streams() -> None:
    """Open a null device for each standard stream that is missing when the process starts (``2>&-``).

    Python sets a missing stream to None, so every write to it fails. The next opened socket or file gets the stream's
    descriptor, so output meant for a terminal could be written to the journal.
    """
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            # open() returns the lowest free descriptor, which is the missing one, because all lower ones are open.
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, opened == descriptor)
            setattr(sys, name, open(opened, mode, encoding="utf-8", errors="backslashreplace", closefd=False))  # noqa: SIM115 - open as long as the process


def drop_output() -> None:
    """Discard unwritten output: Python would write it at exit, and a failure would replace the exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_now(text: str) -> None:
    """Write to standard output and flush. An OSError is raised only here, and not again when the process exits."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        drop_output()
        raise


def write_answer(text: str) -> int:
    """Write a command's result to standard output; return the exit status: 0, or 1 if it can't be written."""
    try:
        write_now(text)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # `… | head` closes the pipe, and that is not an error
            sys.stderr.write(f"error: The answer could not be written: {error.strerror or error}.\n")
            sys.stderr.write("   do: Free disk space, or send standard output elsewhere, and try again.\n")
        return 1
    return 0
