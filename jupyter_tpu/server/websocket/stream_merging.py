"""Consecutive output of a kernel made one message: a page draws the whole text anew for each that it gets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jupyter_tpu.agent.recording.jupyter_messages import json_object
from jupyter_tpu.server.websocket.messages import PageMessage

MERGED_CHARACTERS = 256 * 1024


@dataclass(frozen=True, slots=True)
class StreamText:
    """A message of an output stream, and its text; `is_piece` when the message holds more than this."""

    message: PageMessage
    name: str
    text: str
    is_piece: bool = False

    @classmethod
    def of(cls, message: PageMessage) -> StreamText | None:
        """None for any other message, and for one that is not quite as it should be."""
        if message.channel != "iopub" or message.buffers or message.msg_type != "stream":
            return None
        content = json_object(message.content)
        name, text = content.get("name"), content.get("text")
        if len(content) != 2 or not isinstance(name, str) or not isinstance(text, str):
            return None
        return cls(message, name, text)

    @property
    def bytes(self) -> int:
        """In UTF-8."""
        return len(self.text) if self.text.isascii() else len(self.text.encode(errors="surrogatepass"))

    def piece(self, start: int, end: int | None = None) -> StreamText:
        """Some of the characters."""
        return replace(self, text=self.text[start:end], is_piece=True)

    def behind(self, other: StreamText) -> StreamText:
        """Both as one."""
        message = replace(self.message, first_seq=other.message.first_seq)
        return StreamText(message, self.name, other.text + self.text, is_piece=True)

    def follows(self, other: StreamText) -> bool:
        """Whether both can be one message."""
        mine, its = self.message, other.message
        return (self.name, mine.parent_header, mine.metadata) == (other.name, its.parent_header, its.metadata)


class StreamMerger:
    """Collects messages; runs of text of one stream and one request become one message with the last one's header.

    What the page may have got before, up to `repeated_until`, stays as it is: so the page can tell by the seqs.
    """

    def __init__(self, repeated_until: int = 0) -> None:
        self._repeated_until = repeated_until
        self._messages: list[PageMessage] = []
        self._run: list[StreamText] = []
        self._run_characters = 0

    def add(self, message: PageMessage) -> None:
        """A message that stays as it is."""
        self._end_run()
        self._messages.append(message)

    def add_text(self, text: StreamText) -> None:
        """A message that may become part of a longer one."""
        if self._run and not self._fits(text, self._run[-1]):
            self._end_run()
        self._run.append(text)
        self._run_characters += len(text.text)

    def _fits(self, text: StreamText, last: StreamText) -> bool:
        is_short = self._run_characters + len(text.text) <= MERGED_CHARACTERS
        return is_short and text.follows(last) and last.message.seq > self._repeated_until

    def finish(self) -> list[PageMessage]:
        """All that was added, in order."""
        self._end_run()
        return self._messages

    def _end_run(self) -> None:
        run, self._run, self._run_characters = self._run, [], 0
        if len(run) == 1 and not run[0].is_piece:
            self._messages.append(run[0].message)
        elif text := "".join(piece.text for piece in run):
            last = run[-1].message
            content = {"name": run[-1].name, "text": text}
            self._messages.append(last.with_content(content, first_seq=run[0].message.first_seq))
