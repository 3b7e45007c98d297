"""Run a ``jupyter tpu`` command for a cell, with its output and prompts below the cell.

The command runs in a separate process, as in a terminal, so that this kernel never imports the cloud client.
"""

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

from jupyter_tpu.cli.arguments import COMMANDS
from jupyter_tpu.cli.terminal import QUESTION_END
from jupyter_tpu.errors import BadInput, Text

_COMMAND = (sys.executable, "-m", "jupyter_tpu.cli")
# Bytes to read at once: the capacity of a pipe on Linux.
_PIECE = 64 * 1024

Ask = Callable[[str], str]


def run_command(words: Sequence[str], ask: Ask = input) -> int:
    """Run ``jupyter tpu WORDS``, show its output, and return its exit code.

    An interrupt is forwarded to the command, which then prints whether its work continues.

    Raises:
        BadInput: the command needs a terminal.
    """
    if words and words[0] in COMMANDS and COMMANDS[words[0]].needs_terminal:
        raise BadInput(
            Text("`jupyter tpu {command}` needs a terminal.", command=words[0]), hint="Run the command in a terminal."
        )
    # The command asks questions only if its input is a terminal.
    keyboard, terminal = pty.openpty()
    try:
        process = _start(words, terminal)
    except BaseException:
        os.close(keyboard)
        raise
    finally:
        os.close(terminal)
    with process:
        try:
            return _CommandSession(process, keyboard, ask).run()
        finally:
            os.close(keyboard)


def _start(words: Sequence[str], terminal: int) -> subprocess.Popen[bytes]:
    """Start the command in a separate process group, so that Ctrl-C in this terminal reaches the command only once."""
    return subprocess.Popen(
        [*_COMMAND, *words], stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
    )


class _CommandSession:
    """Connects one command to its cell: shows its output as it arrives, and replies to its prompts."""

    def __init__(self, process: subprocess.Popen[bytes], keyboard: int, ask: Ask) -> None:
        self._process = process
        self._keyboard = keyboard
        self._ask = ask
        self._line = ""

    def run(self) -> int:
        """Copy the command's output and reply to its prompts until it exits. Return its exit code."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._process.stdout, selectors.EVENT_READ, (_decoder(), self._on_stdout))  # type: ignore[arg-type]
            waiting.register(self._process.stderr, selectors.EVENT_READ, (_decoder(), self._on_stderr))  # type: ignore[arg-type]
            while waiting.get_map():
                try:
                    self._read(waiting)
                except KeyboardInterrupt:
                    # The terminal doesn't signal the command's own process group. Continue the loop to read the last
                    # output.
                    with suppress(ProcessLookupError):
                        os.killpg(self._process.pid, signal.SIGINT)
        return self._process.wait()

    def _read(self, waiting: selectors.BaseSelector) -> None:
        for key, _ in waiting.select():
            decoder, handle = key.data
            if piece := os.read(key.fd, _PIECE):
                handle(decoder.decode(piece))
            else:
                waiting.unregister(key.fileobj)

    def _on_stdout(self, text: str) -> None:
        _write(sys.stdout, text)

    def _on_stderr(self, text: str) -> None:
        """Show progress and warnings. Prompt the user if the last line ends like a question."""
        # A prompt may arrive in several pieces, so collect the unfinished line.
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
