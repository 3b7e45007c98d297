"""Runs a command of ``jupyter tpu`` for a cell: its words come out below the cell, its questions are asked there."""

from __future__ import annotations

import codecs
import os
import pty
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TextIO

from jupyter_tpu.cli.terminal import QUESTION_END
from jupyter_tpu.errors import BadInput

IN_A_TERMINAL = ("demo", "emulator", "ssh")
"""Commands that are programs to sit in."""
_COMMAND = (sys.executable, "-m", "jupyter_tpu.cli")
_PIECE = 64 * 1024

Ask = Callable[[str], str]


def run_command(words: Sequence[str], ask: Ask = input) -> int:
    """Run ``jupyter tpu WORDS`` and show what it says; its exit code.

    An interrupt goes to the command, which says what becomes of its work.

    Raises:
        BadInput: it is a program for a terminal.
    """
    if words and words[0] in IN_A_TERMINAL:
        raise BadInput(f"`jupyter tpu {words[0]}` wants a terminal of its own.", hint="Run it there.")
    keyboard, terminal = pty.openpty()  # the command asks only who sits at a terminal
    try:
        process = _start(words, terminal)
    except BaseException:
        os.close(keyboard)
        raise
    finally:
        os.close(terminal)
    with process:
        try:
            return _Conversation(process, keyboard, ask).hold()
        finally:
            os.close(keyboard)


def _start(words: Sequence[str], terminal: int) -> subprocess.Popen[bytes]:
    """In a process group of its own, so that a Ctrl-C in this terminal comes to it once."""
    return subprocess.Popen(
        [*_COMMAND, *words], stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
    )


class _Conversation:
    """With one process: what it says is copied as it comes, and a question waits for its answer."""

    def __init__(self, process: subprocess.Popen[bytes], keyboard: int, ask: Ask) -> None:
        self._process = process
        self._keyboard = keyboard
        self._ask = ask
        self._line = ""

    def hold(self) -> int:
        """Until the process has said its last word; its exit code."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._process.stdout, selectors.EVENT_READ, (_decoder(), self._hear_data))  # type: ignore[arg-type]
            waiting.register(self._process.stderr, selectors.EVENT_READ, (_decoder(), self._hear_notes))  # type: ignore[arg-type]
            while waiting.get_map():
                try:
                    self._hear(waiting)
                except KeyboardInterrupt:
                    with suppress(ProcessLookupError):
                        os.killpg(self._process.pid, signal.SIGINT)
        return self._process.wait()

    def _hear(self, waiting: selectors.BaseSelector) -> None:
        for key, _ in waiting.select():
            decoder, hear = key.data
            if piece := os.read(key.fd, _PIECE):
                hear(decoder.decode(piece))
            else:
                waiting.unregister(key.fileobj)

    def _hear_data(self, text: str) -> None:
        _write(sys.stdout, text)

    def _hear_notes(self, text: str) -> None:
        """What stands beside the data; a line that ends as a question does is asked."""
        self._line = (self._line + text).rpartition("\n")[2]
        if not self._line.endswith(QUESTION_END):
            _write(sys.stderr, text)
            return
        question, self._line = self._line, ""
        _write(sys.stderr, text.removesuffix(question))
        os.write(self._keyboard, self._ask(question).partition("\n")[0].encode() + b"\n")


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


def _write(stream: TextIO, text: str) -> None:
    if text:
        stream.write(text)
        stream.flush()
