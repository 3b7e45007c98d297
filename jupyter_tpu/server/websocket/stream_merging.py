"""Merge consecutive stream messages, because a page redraws the whole text of a cell for each message."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jupyter_tpu.agent.recording.jupyter_messages import json_object
from jupyter_tpu.server.websocket.page_messages import PageMessage

MERGED_CHARACTERS = 256 * 1024
"""Maximum number of characters in a merged message: JupyterLab draws it in less than 0.1 s, and clients accept it."""


@dataclass(frozen=True, slots=True)
class StreamPart:
    """The text of a stream message. `is_piece` means that `text` differs from the text in `message`."""

    message: PageMessage
    name: str
    text: str
    is_piece: bool = False

    @classmethod
    def of(cls, message: PageMessage) -> StreamPart | None:
        """Return the text of a stream message, or None if the message is malformed or of another type."""
        if message.channel != "iopub" or message.buffers or message.msg_type != "stream":
            return None
        content = json_object(message.content)
        name, text = content.get("name"), content.get("text")
        if len(content) != 2 or not isinstance(name, str) or not isinstance(text, str):
            return None
        return cls(message, name, text)

    @property
    def bytes(self) -> int:
        """The size of the text in UTF-8."""
        return len(self.text) if self.text.isascii() else len(self.text.encode(errors="surrogatepass"))

    def piece(self, start: int, end: int | None = None) -> StreamPart:
        """Return the characters from `start` to `end`."""
        return replace(self, text=self.text[start:end], is_piece=True)

    def behind(self, other: StreamPart) -> StreamPart:
        """Return the text of `other` followed by this text."""
        message = replace(self.message, first_seq=other.message.first_seq)
        return StreamPart(message, self.name, other.text + self.text, is_piece=True)

    def follows(self, other: StreamPart) -> bool:
        """Return whether the two texts can be merged: they are from the same stream and request."""
        mine, its = self.message, other.message
        return (self.name, mine.parent_header, mine.metadata) == (other.name, its.parent_header, its.metadata)


class StreamMerger:
    """A collector that merges consecutive messages of the same stream and request; the last header is kept.

    Args:
        repeated_until: messages up to this seq are not merged, because the page may have received them and drops them
            by seq.
    """

    def __init__(self, repeated_until: int = 0) -> None:
        self._repeated_until = repeated_until
        self._messages: list[PageMessage] = []
        self._run: list[StreamPart] = []
        self._run_characters = 0

    def add(self, message: PageMessage) -> None:
        """Add a message that is not merged."""
        self._end_run()
        self._messages.append(message)

    def add_text(self, text: StreamPart) -> None:
        """Add a text that may become part of a longer message."""
        if self._run and not self._fits(text, self._run[-1]):
            self._end_run()
        self._run.append(text)
        self._run_characters += len(text.text)

    def _fits(self, text: StreamPart, last: StreamPart) -> bool:
        is_short = self._run_characters + len(text.text) <= MERGED_CHARACTERS
        return is_short and text.follows(last) and last.message.seq > self._repeated_until

    def finish(self) -> list[PageMessage]:
        """Return all added messages, in order."""
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
