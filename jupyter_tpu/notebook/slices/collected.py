"""The output of a worker in a cell: the start and end of the output, and a digest of the whole output. Pure.

A notebook gets at most `LIMIT` characters per worker and cell. Two outputs count as equal if their digests are equal. A
digest ignores parts that differ by machine and run, such as times and addresses.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

LIMIT = 64 * 1024
"""Characters of text per worker and cell in the notebook: half from the start and half from the end of the output."""

_HALF = LIMIT // 2
_MOST_DATA = 1024 * 1024
_BATCH = 16 * 1024
_LONGEST_LINE = 64 * 1024
_WIDGET = "application/vnd.jupyter.widget-view+json"

_OVERWRITTEN = re.compile(r"^[^\n]*\r", re.MULTILINE)
# What differs between workers: a mark, the pattern and its replacement. A text without the mark isn't searched, because
# a search takes a hundred times as long as looking for the mark.
_IGNORED_LINES = (
    ("[Gloo] Rank ", re.compile(r"^\[Gloo\] Rank \d+ .*(?:\n|\Z)", re.MULTILINE), ""),
    ("%|", re.compile(r"^[^\n]*\d%\|[^\n]*\|[^\n]*(?:\n|\Z)", re.MULTILINE), ""),  # a progress bar contains times
)
_VARYING = (
    # prefix of absl's and XLA's log lines: date, time and thread
    (":", re.compile(r"^[IWEF]\d{4,8} \d\d:\d\d:\d\d\.\d+ +\d+ ", re.MULTILINE), "<glog>"),
    (" time", re.compile(r"^(?:CPU times|Wall time):[^\n]*", re.MULTILINE), "<times>"),
    (":", re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?"), "<time>"),
    ("0x", re.compile(r"\b0x[0-9a-fA-F]{6,}\b"), "<address>"),
)


def comparable(text: str) -> str:
    """Prepare output for a comparison: remove log prefixes, times, memory addresses and progress bars."""
    return _replaced(overwritten(text), (*_IGNORED_LINES, *_VARYING))


def overwritten(text: str) -> str:
    """Return the text without the characters that a terminal would overwrite after a carriage return."""
    if "\r" not in text:
        return text
    return _OVERWRITTEN.sub("", text.replace("\r\n", "\n"))


def _replaced(text: str, patterns: Iterable[tuple[str, re.Pattern[str], str]]) -> str:
    for mark, pattern, replacement in patterns:
        if mark in text:
            text = pattern.sub(replacement, text)
    return text


def encodable(text: str) -> str:
    """Return the text without lone surrogates, which no message can contain."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def shortened(text: str) -> str:
    """Return the text, or its start and its end if it is longer than `LIMIT`."""
    return text if len(text) <= LIMIT else f"{text[:_HALF]} … {text[-_HALF:]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The output of a worker in a cell.

    Attributes:
        parts: the parts of the output in order: ``("stdout", text)``, ``("stderr", text)`` or
            ``("data", {media type: data})``.
        left_out: number of characters omitted between start and end in `parts`.
        digest: digest of the whole output, for comparison.
    """

    parts: tuple[tuple[str, Any], ...] = ()
    left_out: int = 0
    digest: str = ""

    @property
    def is_silent(self) -> bool:
        """Whether the worker has no output."""
        return not self.parts

    @property
    def text(self) -> str:
        """The standard output in `parts`."""
        return "".join(value for kind, value in self.parts if kind == "stdout")

    def to_json(self) -> dict[str, Any]:
        """Return the output as a JSON object for a message."""
        return {"parts": [list(part) for part in self.parts], "left_out": self.left_out, "digest": self.digest}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Collected:
        """Restore an output from the result of `to_json`."""
        parts = tuple((kind, value) for kind, value in content["parts"])
        return cls(parts=parts, left_out=content["left_out"], digest=content["digest"])


@dataclass(slots=True)
class _Digest:
    """The digest of a stream; it does not depend on how the text was split into writes.

    A line that is longer than `_LONGEST_LINE` is compared as it is.
    """

    hash: Any = field(default_factory=hashlib.sha256)
    line: str = ""
    is_long: bool = False

    def add(self, text: str) -> None:
        # In pieces: while a regular expression searches a text, no other thread can run and receive an interrupt.
        for begin in range(0, len(text), _LONGEST_LINE):
            self._add(self.line + text[begin : begin + _LONGEST_LINE])

    def _add(self, text: str) -> None:
        first, newline, others = text.partition("\n")
        # A progress bar may overwrite its line for hours. Keep a final carriage return, which a newline may follow.
        first = first[:-1].rpartition("\r")[2] + first[-1:]
        if self.is_long or len(first) > _LONGEST_LINE:
            self.hash.update((first + newline).encode("utf-8", "replace"))
            self.is_long = not newline
            first = newline = ""
        lines, newline, self.line = (first + newline + others).rpartition("\n")
        self.hash.update(comparable(lines + newline).encode("utf-8", "replace"))

    def value(self) -> str:
        whole = self.hash.copy()
        whole.update(comparable(self.line).encode("utf-8", "replace"))
        return str(whole.hexdigest())


@dataclass(slots=True)
class _Display:
    """A display as JSON data, with its size as JSON text and its digest."""

    data: dict[str, Any]
    size: int
    digest: str

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> _Display:
        """Convert displayed data; only its plain text remains if JSON can't express the data."""
        encoded = {name: b64encode(each).decode() if isinstance(each, bytes) else each for name, each in data.items()}
        try:
            kept = json.loads(encodable(json.dumps(encoded, default=str, ensure_ascii=False)))
            text = json.dumps(kept, sort_keys=True)
        except (TypeError, ValueError, RecursionError):
            return cls.of_text(data)
        return cls(kept, len(text), _digest_of(text))

    @classmethod
    def of_text(cls, data: Mapping[str, Any]) -> _Display:
        """Keep only the plain text of displayed data."""
        text = encodable(str(data.get("text/plain", "")))
        return cls({"text/plain": text[:_HALF]}, min(len(text), _HALF), _digest_of(text))


def _digest_of(text: str) -> str:
    return hashlib.sha256(_replaced(text, _VARYING).encode("utf-8", "replace")).hexdigest()


class Collector:
    """A collector of one cell's output; may be used from any thread.

    Args:
        spill: a function that writes all text to a file on the worker; called if there is more text than the notebook
            shows.
    """

    def __init__(self, spill: Callable[[str], None] | None = None) -> None:
        self._spill = spill
        self._written: deque[tuple[str, str]] = deque()
        self._written_size = 0
        # Never wait long for this lock: a forked child process may inherit it in its locked state.
        self._folding = threading.Lock()
        self._head: list[tuple[str, Any]] = []
        self._head_size = 0
        self._tail: deque[tuple[str, Any]] = deque()
        self._tail_size = 0
        self._left_out = 0
        self._digests: dict[str, _Digest] = {}
        self._displays: list[_Display] = []
        self._displays_size = 0
        self._by_id: dict[str, _Display] = {}
        self._has_spilled = False
        self._clears_next = False

    def write(self, stream: str, text: str) -> None:
        """Add text of ``stdout`` or ``stderr``."""
        self._clear_if_due()
        self._written.append((stream, text))
        self._written_size += len(text)
        if self._written_size > _BATCH:
            self._fold()

    def show(self, data: Mapping[str, Any], display_id: str | None = None, *, is_update: bool = False) -> None:
        """Add a display, or replace the data of an earlier one; if the data is too large, add only its plain text."""
        if _WIDGET in data:
            return
        display = _Display.of(data)
        if is_update:
            self._update(self._by_id.get(display_id or ""), display, data)
            return
        self._clear_if_due()
        if self._displays_size + display.size > _MOST_DATA:
            self.write("stdout", f"{data.get('text/plain', '')}\n")
            return
        if display_id:
            self._by_id[display_id] = display
        self._fold()
        self._displays.append(display)
        self._displays_size += display.size
        self._keep("data", display.data, 0)

    def clear(self, *, wait: bool) -> None:
        """Remove the output, as ``clear_output`` does; with `wait`, only when there is new output."""
        self._clears_next = True
        if not wait:
            self._clear_if_due()

    def collected(self) -> Collected:
        """Return the output collected so far."""
        self._fold(patience_s=1.0)
        digests = {stream: digest.value() for stream, digest in self._digests.items()}
        empty = hashlib.sha256().hexdigest()
        known = {stream: value for stream, value in digests.items() if value != empty}
        whole = json.dumps([known, [display.digest for display in self._displays]], sort_keys=True)
        return Collected(
            parts=tuple(_merged([*self._head, *self._tail])),
            left_out=self._left_out,
            digest=hashlib.sha256(whole.encode()).hexdigest(),
        )

    def _update(self, earlier: _Display | None, display: _Display, data: Mapping[str, Any]) -> None:
        if earlier is None:
            return
        if self._displays_size - earlier.size + display.size > _MOST_DATA:
            display = _Display.of_text(data)
        self._displays_size += display.size - earlier.size
        earlier.data.clear()  # `_head` or `_tail` contains the same object
        earlier.data.update(display.data)
        earlier.size, earlier.digest = display.size, display.digest

    def _clear_if_due(self) -> None:
        if not self._clears_next or not self._folding.acquire(timeout=1.0):
            return
        try:
            self._clears_next = False
            self._written.clear()
            self._head, self._tail = [], deque()
            self._written_size = self._head_size = self._tail_size = self._left_out = self._displays_size = 0
            self._digests, self._displays, self._by_id = {}, [], {}
        finally:
            self._folding.release()

    def _fold(self, patience_s: float = 0.0) -> None:
        if not self._folding.acquire(timeout=patience_s):
            return
        try:
            self._written_size = 0
            written = []
            # Process items one by one, because other threads may add more.
            while self._written:
                written.append(self._written.popleft())
            for stream, each in _merged(written):
                text = encodable(each)
                self._digests.setdefault(stream, _Digest()).add(text)
                self._keep(stream, text, len(text))
        finally:
            self._folding.release()

    def _keep(self, kind: str, value: Any, size: int) -> None:
        room = _HALF - self._head_size
        if room > 0 and not self._tail:
            self._head.append((kind, value[:room] if size else value))
            self._head_size += min(size, room)
            value, size = (value[room:], max(0, size - room)) if size else (None, 0)
            if not size:
                return
        self._tail.append((kind, value))
        self._tail_size += size
        if self._spill is not None and self._head_size + self._tail_size > LIMIT:
            self._pour(value if self._has_spilled else self._text())
        while self._tail_size > _HALF:
            self._cut()

    def _cut(self) -> None:
        """Remove the oldest output from `_tail` until its text is within the limit."""
        kind, value = self._tail.popleft()
        if kind == "data":
            return
        excess = min(len(value), self._tail_size - _HALF)
        self._left_out += excess
        self._tail_size -= excess
        if value[excess:]:
            self._tail.appendleft((kind, value[excess:]))

    def _text(self) -> str:
        return "".join(value for kind, value in [*self._head, *self._tail] if kind != "data")

    def _pour(self, text: Any) -> None:
        self._has_spilled = True
        if self._spill is not None and isinstance(text, str):
            self._spill(text)


def _merged(parts: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the parts; consecutive texts of the same stream are joined."""
    runs: list[tuple[str, Any]] = []
    texts: list[str] = []
    for kind, value in parts:
        if texts and (kind == "data" or kind != runs[-1][0]):
            runs[-1] = (runs[-1][0], "".join(texts))
            texts = []
        if kind == "data":
            runs.append((kind, value))
        else:
            if not texts:
                runs.append((kind, ""))
            texts.append(value)
    if texts:
        runs[-1] = (runs[-1][0], "".join(texts))
    return [part for part in runs if part[1]]
