"""All that is known of one execute_request: what was asked, how far it is, what it has put out."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from jupyter_tpu.outputs.items import Failure, Item, Stream, count_of, failure_of, page_of, stream_text
from jupyter_tpu.outputs.parsing import Message
from jupyter_tpu.outputs.text import StreamText

HIDDEN = "········"
"""What stands in a cell for a password, as JupyterLab writes it."""

State: TypeAlias = Literal["queued", "running", "done", "aborted", "lost"]


class Request:
    """One request; `head` and `tail` are the characters that are kept of each stream output.

    Attributes:
        header: the request's own, or what its messages tell of it when the record no longer holds it.
        outputs: what the cell shows.
        is_clearing: whether the next output takes the place of all others (``clear_output(wait=True)``).
        input: the message by which the kernel waits for input, whole.
        captured: how many messages came while an Output widget was taking them in, which only a front end can show.
        omitted_bytes: what the reader of the record left out, before any limit of ours.
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
        """How far it is. A request that ended without having been begun was aborted, whatever its reply's fate."""
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
        """How it ended, as its reply says; where there is none, as far as its messages tell."""
        state = self.state
        if state in ("aborted", "lost"):
            return state
        if self._reply_status in ("ok", "error"):
            return self._reply_status
        has_failed = any(isinstance(item, Failure) for item in self.outputs)
        return "error" if state == "done" and has_failed else None

    @property
    def code(self) -> str:
        return _text(self.content.get("code")) or self._input_code

    @property
    def session(self) -> str:
        return _text(self.header.get("session"))

    @property
    def cell_id(self) -> str | None:
        return _text(self.metadata.get("cellId")) or None

    # -- what happens to it --------------------------------------------------------------------------------------------

    def saw(self, seq: int) -> None:
        """A message that belongs to it has this seq."""
        self.first_seq = self.first_seq or seq
        self.last_seq = seq

    def ask(self, message: Message, metadata: dict[str, Any]) -> None:
        """The request itself."""
        self.header, self.metadata, self.content = message.header, metadata, message.content
        self._is_whole = True

    def begin(self, message: Message) -> None:
        """The kernel says something of it, so it is at work."""
        self.busy = self.busy or message

    def learn_status(self, message: Message) -> None:
        if message.content.get("execution_state") == "idle":
            self.idle = message
            self.input = None

    def learn_input(self, message: Message) -> None:
        self.execute_input = message
        self.learn_count(message)

    def learn_count(self, message: Message) -> None:
        count = count_of(message)
        self.execution_count = self.execution_count if count is None else count

    def learn_reply(self, message: Message) -> None:
        """The reply; what it carries of help texts is shown as front ends do."""
        status = message.content.get("status")
        self._reply_status = "aborted" if status == "abort" else _text(status)
        self.learn_count(message)
        page = page_of(message)
        if page and self._reply_status == "ok":
            self.add(page)

    def lose(self) -> None:
        """The kernel that was to answer is gone."""
        self._is_lost = True
        self.input = None

    def answer(self, message: Message) -> None:
        """What the kernel asked is answered. Front ends keep that as a line of the cell, and no password in it."""
        question, self.input = self.input, None
        if question is None:
            return
        typed = HIDDEN if question.content.get("password") else message.content.get("value")
        if isinstance(typed, str):
            stream = self._stream("stdin")
            stream.text.write(f"{_text(question.content.get('prompt'))} {typed}\n")
            stream.source = question

    # -- outputs -------------------------------------------------------------------------------------------------------

    def print(self, message: Message) -> None:
        """A stream message; it joins the last output if that is of the same stream."""
        name, text = stream_text(message)
        stream = self._stream(name)
        stream.text.write(text)
        stream.source = message

    def add(self, item: Item) -> None:
        """A new output."""
        self._clear_if_waiting()
        self.outputs.append(item)

    def fail(self, message: Message) -> None:
        self.add(failure_of(message))

    def clear(self, *, wait: bool) -> None:
        if wait:
            self.is_clearing = True
        else:
            self.outputs.clear()

    def say(self, text: str) -> None:
        """Something that the kernel did not say, on its standard error."""
        self._stream("stderr").text.write(text)

    def omit(self, size: int) -> None:
        """`size` bytes of stream messages are missing here."""
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
        silent = self.content.get("silent") is True
        return self._is_whole and not (silent or self.execute_input or self._reply_status or self.outputs)

    @property
    def _input_code(self) -> str:
        return _text(self.execute_input.content.get("code")) if self.execute_input else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
