"""The state of one execute_request: its code, its progress and its outputs."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from jupyter_tpu.outputs.items import Failure, Item, Stream, count_of, failure_of, pager_display, stream_text
from jupyter_tpu.outputs.parsing import Message
from jupyter_tpu.outputs.text import StreamText

HIDDEN = "········"
"""The text that a cell shows in place of a password, as in JupyterLab."""

State: TypeAlias = Literal["queued", "running", "done", "aborted", "lost"]


class Request:
    """One execute_request and the messages that belong to it, which are processed in the order of the record.

    Args:
        head, tail: number of characters kept at the start and the end of each stream output.

    Attributes:
        header: the request's own header, or the copy in its messages if the request is no longer in the record.
        outputs: the outputs of the cell.
        is_clearing: whether the next output replaces all previous outputs (``clear_output(wait=True)``).
        input: the input_request that waits for a reply, or None.
        captured: number of messages that an Output widget captured, which only a front end can show.
        omitted_bytes: number of bytes of the request's messages that were not read from the record.
    """

    def __init__(self, msg_id: str, header: dict[str, Any], *, head: int, tail: int) -> None:
        self.msg_id = msg_id
        self.header = header
        self.metadata: dict[str, Any] = {}
        self.content: dict[str, Any] = {}
        self.first_seq = self.last_seq = 0
        self.outputs: list[Item] = []
        self.is_clearing = False
        self.execution_count: int | None = None
        self.input: Message | None = None
        self.captured = 0
        self.omitted_bytes = 0
        self.busy: Message | None = None
        self.execute_input: Message | None = None
        self.idle: Message | None = None
        self._is_whole = False
        self._is_lost = False
        self._reply_status = ""
        self._head = head
        self._tail = tail

    @property
    def state(self) -> State:
        """The progress of the request. If a request has finished but the kernel never ran it, it counts as aborted."""
        if self._is_lost and self.busy and self._reply_status == "aborted":
            return "lost"
        if self._reply_status == "aborted" or (self.idle and self._was_skipped):
            return "aborted"
        if self.idle:
            return "done"
        if self._is_lost:
            return "lost"
        return "running" if self.busy else "queued"

    @property
    def status(self) -> str | None:
        """The request's final status, or None if it is unknown.

        Without a reply, the status is ``error`` if an output shows an error.
        """
        state = self.state
        if state in ("aborted", "lost"):
            return state
        if self._reply_status in ("ok", "error"):
            return self._reply_status
        has_failed = any(isinstance(item, Failure) for item in self.outputs)
        return "error" if state == "done" and has_failed else None

    @property
    def code(self) -> str:
        """The source of the cell; empty if it is no longer in the record."""
        return _text(self.content.get("code")) or self._input_code

    @property
    def session(self) -> str:
        """The id of the session that sent the request."""
        return _text(self.header.get("session"))

    @property
    def cell_id(self) -> str | None:
        """The id of the cell, or None if the client did not send an id."""
        return _text(self.metadata.get("cellId")) or None

    # -- events of the request

    def record_seq(self, seq: int) -> None:
        """Update the request's first and last seq with the seq of one of its messages."""
        self.first_seq = self.first_seq or seq
        self.last_seq = seq

    def record_request(self, message: Message, metadata: dict[str, Any]) -> None:
        """Process the execute_request message itself."""
        self.header, self.metadata, self.content = message.header, metadata, message.content
        self._is_whole = True

    def mark_busy(self, message: Message) -> None:
        """Record that the kernel is working on the request, because it has sent a message about it."""
        self.busy = self.busy or message

    def record_status(self, message: Message) -> None:
        """Process a status message: "idle" ends the request."""
        if message.content.get("execution_state") == "idle":
            self.idle = message
            self.input = None

    def record_execute_input(self, message: Message) -> None:
        """Process the execute_input, in which the kernel sends code and execution count."""
        self.execute_input = message
        self.record_count(message)

    def record_count(self, message: Message) -> None:
        """Store the execution count of a message, if it has one."""
        count = count_of(message)
        self.execution_count = self.execution_count if count is None else count

    def record_reply(self, message: Message) -> None:
        """Process the execute_reply; pager text becomes an output, as in front ends."""
        status = message.content.get("status")
        self._reply_status = "aborted" if status == "abort" else _text(status)  # older kernels write "abort"
        self.record_count(message)
        page = pager_display(message)
        if page and self._reply_status == "ok":
            self.add(page)

    def mark_lost(self) -> None:
        """Mark the request as lost, because the kernel process that would reply has exited."""
        self._is_lost = True
        self.input = None

    def record_input_reply(self, message: Message) -> None:
        """Process an input_reply: add prompt and input as a line, as front ends do, with a password hidden."""
        question, self.input = self.input, None
        if question is None:
            return
        typed = HIDDEN if question.content.get("password") else message.content.get("value")
        if isinstance(typed, str):
            stream = self._stream("stdin")
            stream.text.write(f"{_text(question.content.get('prompt'))} {typed}\n")
            stream.source = question

    # -- outputs

    def add_stream(self, message: Message) -> None:
        """Add the text of a stream message; append it to the last output if that output is from the same stream."""
        name, text = stream_text(message)
        stream = self._stream(name)
        stream.text.write(text)
        stream.source = message

    def add(self, item: Item) -> None:
        """Append an output."""
        self._clear_if_waiting()
        self.outputs.append(item)

    def add_error(self, message: Message) -> None:
        """Append the exception in an error message."""
        self.add(failure_of(message))

    def clear(self, *, wait: bool) -> None:
        """Remove all outputs immediately or, with `wait`, when the next output arrives."""
        if wait:
            self.is_clearing = True
        else:
            self.outputs.clear()

    def add_notice(self, text: str) -> None:
        """Add a jupyter_tpu notice to the cell's standard error."""
        self._stream("stderr").text.write(text)

    def omit(self, size: int) -> None:
        """Record that `size` bytes of stream messages are missing here."""
        # the missing messages probably continue the last stream
        last = self.outputs[-1] if self.outputs and not self.is_clearing else None
        stream = last if isinstance(last, Stream) else self._stream("stdout")
        stream.text.omit(size)
        self.omitted_bytes += size

    def _stream(self, name: str) -> Stream:
        self._clear_if_waiting()
        last = self.outputs[-1] if self.outputs else None
        if isinstance(last, Stream) and last.name == name:
            return last
        self.outputs.append(Stream(name, StreamText(self._head, self._tail), None))
        return self.outputs[-1]  # type: ignore[return-value]

    def _clear_if_waiting(self) -> None:
        if self.is_clearing:
            self.is_clearing = False
            self.outputs.clear()

    @property
    def _was_skipped(self) -> bool:
        """Return whether the kernel skipped the request: it isn't silent, but has no execute_input, output or reply."""
        silent = self.content.get("silent") is True
        return self._is_whole and not (silent or self.execute_input or self._reply_status or self.outputs)

    @property
    def _input_code(self) -> str:
        return _text(self.execute_input.content.get("code")) if self.execute_input else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
