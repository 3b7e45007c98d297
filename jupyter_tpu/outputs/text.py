"""Stream text as JupyterLab shows it; stores only its start and end, in bounded space.

A carriage return moves to the start of the line, and later text overwrites the line. A backspace removes a character
(two inside a line, as in JupyterLab 4.6). A line feed moves to the end of all text, so only the last line can still
change. Positions are counted in characters, whereas JupyterLab counts UTF-16 units: a partly overwritten line with
characters beyond the basic plane stays intact here. The running time is linear in the written text.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

_TOKENS = re.compile(r"[\n\r\b]|[^\n\r\b]+")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The shown part of a text.

    Attributes:
        omitted_bytes: number of bytes omitted between `head` and `tail`.
        cursor: the index in the last line of `tail` at which the next character is written; None means the end of the
            line.
    """

    head: str
    tail: str
    omitted_bytes: int
    cursor: int | None


class StreamText:
    """The text of one stream output; stores its first `head` and last `tail` characters."""

    def __init__(self, head: int, tail: int) -> None:
        self._head_limit = self._head_room = head
        self._tail_limit = tail
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._omitted = 0
        self._is_torn = False  # whether the tail starts inside a line
        self._line = Line()

    def write(self, text: str) -> None:
        """Add printed text."""
        # most text has no control characters and needs no splitting
        if "\r" in text or "\b" in text or not self._line.is_at_end:
            for token in _TOKENS.findall(text):
                self._write_token(token)
        else:
            self.append(text)

    def omit(self, size: int) -> None:
        """Record that `size` bytes are missing here. The text before them is dropped, except for the stored start."""
        self._commit(self._line.pop_all())
        self._omitted += size + sum(map(byte_size, self._tail))
        self._tail.clear()
        self._tail_size = self._head_room = 0
        self._is_torn = False

    def excerpt(self) -> Excerpt:
        """Return the text without its middle, cut at line ends if possible."""
        line, cursor = self._line.content()
        beginning, rest, omitted = "".join(self._head), "".join(self._tail) + line, self._omitted
        if not omitted:
            whole = beginning + rest
            if len(whole) <= self._head_limit + self._tail_limit:
                return Excerpt("", whole, 0, cursor)
            beginning, rest = whole[: self._head_limit], whole[self._head_limit :]
        # drop the incomplete lines on both sides of the gap, unless that would drop everything
        shown_head = beginning[: beginning.rfind("\n") + 1] or beginning
        shown_tail = self._shown_end(rest)
        omitted += byte_size(beginning[len(shown_head) :]) + byte_size(rest[: len(rest) - len(shown_tail)])
        return Excerpt(shown_head, shown_tail, omitted, _moved(cursor, line, shown_tail))

    def _shown_end(self, rest: str) -> str:
        dropped, end = rest[: -self._tail_limit], rest[-self._tail_limit :]
        is_torn = not dropped.endswith("\n") if dropped else self._is_torn
        next_line = end.find("\n") + 1
        return end[next_line:] if is_torn and next_line < len(end) else end

    def _write_token(self, token: str) -> None:
        if token == "\n":
            self._commit(self._line.pop_all() + token)
        elif token == "\r":
            self._line.carriage_return()
        elif token == "\b":
            self._line.backspace()
        else:
            self._line.write(token)

    def append(self, text: str) -> None:
        """Add text that has no effective control characters; only allowed while the cursor is at the end."""
        cut = text.rfind("\n") + 1
        if cut:
            self._commit(self._line.pop_all() + text[:cut])
        self._line.write(text[cut:])

    def _commit(self, text: str) -> None:
        """Store text that can no longer change: fill the head first, then append to the tail."""
        if self._head_room:
            part, text = text[: self._head_room], text[self._head_room :]
            self._head.append(part)
            self._head_room -= len(part)
        if text:
            self._tail.append(text)
            self._tail_size += len(text)
            self._trim_tail()

    def _trim_tail(self) -> None:
        # drop whole pieces first, so that the work is linear; cut a piece only if it exceeds the limit by itself
        while self._tail_size - len(self._tail[0]) >= self._tail_limit and len(self._tail) > 1:
            old = self._tail.popleft()
            self._tail_size -= len(old)
            self._omitted += byte_size(old)
            self._is_torn = not old.endswith("\n")
        if len(self._tail) == 1 and self._tail_size > self._tail_limit:
            old, self._tail[0] = self._tail[0], self._tail[0][-self._tail_limit :]
            self._tail_size = len(self._tail[0])
            dropped = old[: len(old) - self._tail_size]
            self._omitted += byte_size(dropped)
            self._is_torn = not dropped.endswith("\n")


def _moved(cursor: int | None, line: str, shown: str) -> int | None:
    """Convert the cursor's index in `line` to its index in the last line of `shown`.

    The start of `line` may be missing from `shown`.
    """
    if cursor is None:
        return None
    return max(0, len(shown) - (shown.rfind("\n") + 1) - (len(line) - cursor))


def byte_size(text: str) -> int:
    """Return the length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class Line:
    """The last line as two lists of pieces: the text to the left and to the right of the cursor.

    Pieces are moved between the lists without being copied, so the work grows only linearly with the number of
    characters.
    """

    def __init__(self) -> None:
        self._left: list[str] = []
        self._right: list[tuple[str, int]] = []  # (piece, index at which the line continues in it), nearest piece last

    @property
    def is_at_end(self) -> bool:
        """Whether the cursor is at the end of the line."""
        return not self._right

    def write(self, text: str) -> None:
        """Write text at the cursor, replacing the text to its right."""
        if not text:
            return
        self._left.append(text)
        if self._right:
            self._drop(len(text))

    def carriage_return(self) -> None:
        """Move the cursor to the start of the line."""
        self._right += [(piece, 0) for piece in reversed(self._left)]
        self._left.clear()

    def backspace(self) -> None:
        """Remove the characters before and under the cursor, as JupyterLab 4.6 does."""
        if self._left:
            last = self._left.pop()
            if len(last) > 1:
                self._keep_all_but_last(last)
            self._drop(1)

    def pop_all(self) -> str:
        """Return the whole line and empty it."""
        line, _ = self.content()
        self._left.clear()
        self._right.clear()
        return line

    def content(self) -> tuple[str, int | None]:
        """Return the line and the cursor's index in it; the index is None if the cursor is at the end."""
        left = "".join(self._left)
        if not self._right:
            return left, None
        return left + "".join(piece[start:] for piece, start in reversed(self._right)), len(left)

    def _keep_all_but_last(self, text: str) -> None:
        """Remove the last character of a text. Store the rest in halves, so that the next backspace copies only one."""
        middle = len(text) // 2
        self._left.append(text[:middle])
        rest = text[middle:-1]
        if rest:
            self._left.append(rest)

    def _drop(self, count: int) -> None:
        while count and self._right:
            piece, start = self._right.pop()
            if len(piece) - start > count:
                self._right.append((piece, start + count))
                return
            count -= len(piece) - start
