"""Limit the text sent to a page: send its start, a notice with the omitted amount, and its end.

Stream messages are merged and truncated; all other messages pass unchanged, and the order never changes. Functions get
the current time as an argument.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping

from jupyter_tpu.agent.recording.jupyter_messages import json_object
from jupyter_tpu.server.websocket.page_messages import MakeHeader, PageMessage
from jupyter_tpu.server.websocket.stream_merging import StreamMerger, StreamPart

TEXT_LIMIT = 2_000_000
"""Characters of text per request that are sent to a page.

A browser redraws the whole text at each change (1 MB takes 0.4 s in JupyterLab).
"""

TAIL_CHARACTERS = 100_000
"""Number of characters from the end of a text that are shown once the text is complete."""

UPDATE_S = 2.0
"""Seconds between two updates of the notice: often enough to show progress, but without keeping a browser busy."""

_LAST_LINES_CHARACTERS = 4_000  # source of the last 20 lines in the notice
_REMEMBERED_REQUESTS = 256  # bounds the memory; a page rarely follows more than one request at a time
# Store the tail in pieces of at least this size, and at most this many pieces: a kernel may print single characters.
_PIECE_CHARACTERS = 4_000
_MOST_PIECES = 1_000

_ENDINGS = {"error", "execute_result"}  # more text is unlikely after these, so show the tail before them
# These messages don't change a cell's outputs, so text omitted before them can continue after them.
_PASSING = {"update_display_data", "comm_open", "comm_msg", "comm_close", "status", "debug_event"}
_CAPTURES_OUTPUT = re.compile(rb'"msg_id"\s*:')  # an Output widget that captures the following text

Describe = Callable[[str, int, str], Mapping[str, str]]
"""A function that returns the notice as a MIME bundle.

Its arguments are a request's msg_id, the omitted bytes and their last lines.
"""


class TextLimit:
    """The limit on the text of one kernel on one page.

    Each request may send `text_limit` visible characters of stream output; text overwritten with carriage returns does
    not count. If a request exceeds this limit, a display shows the newest lines and the size of the omitted text. The
    display is updated every `UPDATE_S` seconds. When the request ends, its last `TAIL_CHARACTERS` characters are sent.
    `clear_output` resets the count.

    Args:
        make_header: a function that creates headers for the notices.
        describe: a function that returns the content of a notice.

    Attributes:
        repeated_until: the page may already have received messages up to this seq.
    """

    def __init__(self, make_header: MakeHeader, describe: Describe, *, text_limit: int = TEXT_LIMIT) -> None:
        self._make_header = make_header
        self._describe = describe
        self._text_limit = text_limit
        self.repeated_until = 0
        self._requests: OrderedDict[str, _Request] = OrderedDict()

    def feed(self, messages: Iterable[PageMessage], now_s: float) -> list[PageMessage]:
        """Return the messages to send to the page in place of the given messages.

        Args:
            now_s: the time in seconds from any steady clock.
        """
        out = StreamMerger(self.repeated_until)
        for message in messages:
            text = None if message.is_notice else StreamPart.of(message)
            if text:
                self._feed_text(text, out, now_s)
            else:
                self._feed_other(message, out)
                out.add(message)
        return out.finish()

    @property
    def due_s(self) -> float | None:
        """When to call `renew` if no message arrives earlier, or None if no notice needs an update."""
        return min((gap.due_s for gap in self._gaps() if gap.due_s is not None), default=None)

    def renew(self, now_s: float) -> list[PageMessage]:
        """Return updates of outdated notices."""
        due = [gap for gap in self._gaps() if gap.due_s is not None and gap.due_s <= now_s]
        return [self._display("update_display_data", gap, now_s) for gap in due]

    def _gaps(self) -> Iterable[_Gap]:
        return [request.gap for request in self._requests.values() if request.gap]

    def _feed_text(self, text: StreamPart, out: StreamMerger, now_s: float) -> None:
        """Forward text up to the limit; omit the remaining text and report its size in a notice."""
        request = self._request_of(text.message)
        if request.gap is None:
            rest = self._show(request, text, out)
            if rest is None:
                return
            text = rest
            request.gap = _Gap(text.message)
            request.gap.add(text)
            out.add(self._display("display_data", request.gap, now_s))
        else:
            request.gap.add(text)
            if request.gap.due_s is not None and request.gap.due_s <= now_s:
                out.add(self._display("update_display_data", request.gap, now_s))

    def _show(self, request: _Request, text: StreamPart, out: StreamMerger) -> StreamPart | None:
        """Forward the start of a text, up to the limit. Return the rest, or None if there is no rest."""
        room = self._text_limit - request.shown
        growth, line = shown_after(request.line, text.text)
        if growth <= room:
            request.shown += growth
            request.line = line
            out.add_text(text)
            return None
        # cut after the last complete line if there is one, so that the notice doesn't split a line
        is_between_lines = request.shown and not request.line
        end = text.text.rfind("\n", 0, room) + 1 or (0 if is_between_lines else room)
        out.add_text(text.piece(0, end))
        request.shown = self._text_limit
        return text.piece(end)

    def _feed_other(self, message: PageMessage, out: StreamMerger) -> None:
        """Finish the notice about omitted text if this message requires it.

        If the cell has ended, also send the last omitted lines.
        """
        request = self._requests.get(message.parent_id) if message.channel == "iopub" and self._requests else None
        if request is None:
            return
        kind = message.msg_type
        if kind == "clear_output":
            request.shown = request.line = 0
            request.gap = None
        elif request.gap and (kind in _ENDINGS or _is_idle(kind, message)):
            self._close(request, request.gap, out, with_tail=True)
        elif request.gap and (kind not in _PASSING or _CAPTURES_OUTPUT.search(message.content)):
            self._close(request, request.gap, out, with_tail=False)

    def _close(self, request: _Request, gap: _Gap, out: StreamMerger, *, with_tail: bool) -> None:
        request.gap = None
        tail = gap.take_tail() if with_tail else []
        out.add(self._display("update_display_data", gap, 0.0, last_lines=""))  # the tail shows the newest lines now
        for text in tail:
            out.add_text(text)

    def _display(self, kind: str, gap: _Gap, now_s: float, last_lines: str | None = None) -> PageMessage:
        notice = self._describe(gap.msg_id, gap.left_out_bytes, gap.last_lines() if last_lines is None else last_lines)
        gap.updated(now_s)
        content = {"data": dict(notice), "metadata": {}, "transient": {"display_id": gap.display_id}}
        return PageMessage.made(self._make_header(kind), gap.parent_header, content)

    def _request_of(self, message: PageMessage) -> _Request:
        key = message.parent_id
        request = self._requests.setdefault(key, _Request())
        self._requests.move_to_end(key)
        if len(self._requests) > _REMEMBERED_REQUESTS:
            self._requests.popitem(last=False)
        return request


class _Request:
    """The stream output of one request, as shown on a page.

    Attributes:
        shown: number of shown characters, which count against the limit.
        line: number of shown characters in the last line, which a carriage return may overwrite.
        gap: the omitted text; None while text is forwarded.
    """

    def __init__(self) -> None:
        self.shown = 0
        self.line = 0
        self.gap: _Gap | None = None


class _Gap:
    """Omitted text at one place on a page; stores the newest text, which may be shown as the end of the output."""

    def __init__(self, message: PageMessage) -> None:
        self.msg_id = message.parent_id
        self.parent_header = message.parent_header
        self.display_id = f"jupyter-tpu-left-out-{self.msg_id}-{message.seq}"
        self.left_out_bytes = 0
        self.due_s: float | None = None
        self._updated_s = 0.0
        self._tail = _Tail()

    def add(self, text: StreamPart) -> None:
        """Add a text to the omitted text."""
        self.left_out_bytes += text.bytes
        self.due_s = self._updated_s + UPDATE_S
        self._tail.add(text)

    def updated(self, now_s: float) -> None:
        """Record that the page's notice about omitted text is up to date."""
        self._updated_s, self.due_s = now_s, None

    def last_lines(self) -> str:
        """Return the newest omitted characters, for the notice."""
        return self._tail.last_characters(_LAST_LINES_CHARACTERS)

    def take_tail(self) -> list[StreamPart]:
        """Return and remove the end of the text, which then no longer counts as omitted."""
        tail = self._tail.whole_lines()
        self.left_out_bytes -= sum(text.bytes for text in tail)
        return tail


class _Tail:
    """The newest `TAIL_CHARACTERS` of a text, in a few pieces."""

    def __init__(self) -> None:
        self._texts: deque[StreamPart] = deque()
        self._size = 0
        self._is_cut = False

    def add(self, text: StreamPart) -> None:
        """Append a text and drop the oldest texts that exceed the limits."""
        self._size += len(text.text)
        last = self._texts[-1] if self._texts else None
        if last and len(last.text) < _PIECE_CHARACTERS and text.follows(last):
            self._texts[-1] = text.behind(last)
        else:
            self._texts.append(text)
        while self._size > TAIL_CHARACTERS or len(self._texts) > _MOST_PIECES:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._is_cut = True
        oldest, surplus = self._texts[0], self._size - TAIL_CHARACTERS
        if 0 < surplus < len(oldest.text):
            self._texts[0] = oldest.piece(surplus)
            self._size -= surplus
        else:
            self._size -= len(self._texts.popleft().text)

    def whole_lines(self) -> list[StreamPart]:
        """Return the texts, without the first line if its start is missing."""
        texts = list(self._texts)
        if self._is_cut and texts:
            texts[0] = texts[0].piece(texts[0].text.find("\n") + 1)
        return texts

    def last_characters(self, most: int) -> str:
        """Return up to `most` characters from the end."""
        found = ""
        for text in reversed(self._texts):
            found = text.text[-most:] + found
            if len(found) >= most:
                break
        return found[-most:]


def shown_after(line: int, text: str) -> tuple[int, int]:
    """Return the number of characters that `text` adds to a page, and the new length of the last line.

    As in front ends, a carriage return moves to the start of the line, and the text after it overwrites the line.

    Args:
        line: length of the last line before `text` is added.
    """
    if "\r" not in text:
        end = text.rfind("\n") + 1
        return len(text), len(text) - end if end else line + len(text)
    growth = 0
    # a line shows as many characters as the longest text written to it, for example a progress bar
    for number, part in enumerate(text.split("\n")):
        if number:
            growth += 1
            line = 0
        first, *overwriting = part.split("\r")
        longest = max([line + len(first), *map(len, overwriting)])
        growth += longest - line
        line = longest
    return growth, line


def _is_idle(kind: str, message: PageMessage) -> bool:
    return kind == "status" and json_object(message.content).get("execution_state") == "idle"
