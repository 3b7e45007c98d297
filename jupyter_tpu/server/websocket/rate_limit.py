"""What a page gets of a flood of text: the beginning, a word on how much is left out, and the end.

Output streams are merged and thinned; everything else passes as it came, and nothing overtakes what was said before it.
Knows the clock only as an argument.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping

from jupyter_tpu.agent.recording.jupyter_messages import json_object
from jupyter_tpu.server.websocket.messages import MakeHeader, PageMessage
from jupyter_tpu.server.websocket.stream_merging import StreamMerger, StreamText

TEXT_LIMIT = 2_000_000
TAIL_CHARACTERS = 100_000
UPDATE_S = 2.0

_LAST_LINES_CHARACTERS = 4_000
_REMEMBERED_REQUESTS = 256
_PIECE_CHARACTERS = 4_000
_MOST_PIECES = 1_000

_ENDINGS = {"error", "execute_result"}
_PASSING = {"update_display_data", "comm_open", "comm_msg", "comm_close", "status", "debug_event"}
_CAPTURES_OUTPUT = re.compile(rb'"msg_id"\s*:')  # an Output widget that says where the text that follows belongs

Describe = Callable[[str, int, str], Mapping[str, str]]
"""The words of a display, as a MIME bundle: msg_id of the request, bytes left out, the last lines of them."""


class RateLimit:
    """Thins the messages of one kernel for one page.

    Per request, `text_limit` characters of what streams show pass; text that a carriage return has overwritten does not
    count. Then a display says what is left out, with its newest lines, and is renewed every `UPDATE_S`. At the end the
    last `TAIL_CHARACTERS` follow it. `clear_output` begins anew.

    Attributes:
        repeated_until: the page may have got messages up to this seq already.
    """

    def __init__(self, make_header: MakeHeader, describe: Describe, *, text_limit: int = TEXT_LIMIT) -> None:
        self._make_header = make_header
        self._describe = describe
        self._text_limit = text_limit
        self.repeated_until = 0
        self._requests: OrderedDict[str, _Request] = OrderedDict()

    def feed(self, messages: Iterable[PageMessage], now_s: float) -> list[PageMessage]:
        """What the page gets of these messages."""
        out = StreamMerger(self.repeated_until)
        for message in messages:
            text = StreamText.of(message)
            if text:
                self._take_text(text, out, now_s)
            else:
                self._take_other(message, out)
                out.add(message)
        return out.finish()

    @property
    def due_s(self) -> float | None:
        """When `renew` should be called, if nothing is fed by then."""
        return min((gap.due_s for gap in self._gaps() if gap.due_s is not None), default=None)

    def renew(self, now_s: float) -> list[PageMessage]:
        """Displays that have fallen behind."""
        due = [gap for gap in self._gaps() if gap.due_s is not None and gap.due_s <= now_s]
        return [self._display("update_display_data", gap, now_s) for gap in due]

    def _gaps(self) -> Iterable[_Gap]:
        return [request.gap for request in self._requests.values() if request.gap]

    def _take_text(self, text: StreamText, out: StreamMerger, now_s: float) -> None:
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

    def _show(self, request: _Request, text: StreamText, out: StreamMerger) -> StreamText | None:
        """Pass on what still finds room; returns the rest."""
        room = self._text_limit - request.shown
        growth, line = shown_after(request.line, text.text)
        if growth <= room:
            request.shown += growth
            request.line = line
            out.add_text(text)
            return None
        is_between_lines = request.shown and not request.line
        end = text.text.rfind("\n", 0, room) + 1 or (0 if is_between_lines else room)
        out.add_text(text.piece(0, end))
        request.shown = self._text_limit
        return text.piece(end)

    def _take_other(self, message: PageMessage, out: StreamMerger) -> None:
        """A message that is about to pass: text that was said before it must come before it, or stay out."""
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
        out.add(self._display("update_display_data", gap, 0.0, last_lines=""))
        for text in tail:
            out.add_text(text)

    def _display(self, kind: str, gap: _Gap, now_s: float, last_lines: str | None = None) -> PageMessage:
        words = self._describe(gap.msg_id, gap.left_out_bytes, gap.last_lines() if last_lines is None else last_lines)
        gap.told(now_s)
        content = {"data": dict(words), "metadata": {}, "transient": {"display_id": gap.display_id}}
        return PageMessage.made(self._make_header(kind), gap.parent_header, content)

    def _request_of(self, message: PageMessage) -> _Request:
        key = message.parent_id
        request = self._requests.setdefault(key, _Request())
        self._requests.move_to_end(key)
        if len(self._requests) > _REMEMBERED_REQUESTS:
            self._requests.popitem(last=False)
        return request


class _Request:
    """What a page shows of one request's streams.

    Attributes:
        shown: characters, counted against the limit.
        line: those in the last line, which a carriage return may overwrite.
    """

    def __init__(self) -> None:
        self.shown = 0
        self.line = 0
        self.gap: _Gap | None = None


class _Gap:
    """Text that is left out, in one place of a page; its newest part is held in case it is the end."""

    def __init__(self, message: PageMessage) -> None:
        self.msg_id = message.parent_id
        self.parent_header = message.parent_header
        self.display_id = f"jupyter-tpu-left-out-{self.msg_id}-{message.seq}"
        self.left_out_bytes = 0
        self.due_s: float | None = None
        self._told_s = 0.0
        self._tail = _Tail()

    def add(self, text: StreamText) -> None:
        self.left_out_bytes += text.bytes
        self.due_s = self._told_s + UPDATE_S
        self._tail.add(text)

    def told(self, now_s: float) -> None:
        """The page knows what is left out by now."""
        self._told_s, self.due_s = now_s, None

    def last_lines(self) -> str:
        return self._tail.last_characters(_LAST_LINES_CHARACTERS)

    def take_tail(self) -> list[StreamText]:
        """The end, which is then not left out."""
        tail = self._tail.whole_lines()
        self.left_out_bytes -= sum(text.bytes for text in tail)
        return tail


class _Tail:
    """The newest `TAIL_CHARACTERS`, in few pieces."""

    def __init__(self) -> None:
        self._texts: deque[StreamText] = deque()
        self._size = 0
        self._is_cut = False

    def add(self, text: StreamText) -> None:
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

    def whole_lines(self) -> list[StreamText]:
        """Without the rest of a line whose beginning is gone."""
        texts = list(self._texts)
        if self._is_cut and texts:
            texts[0] = texts[0].piece(texts[0].text.find("\n") + 1)
        return texts

    def last_characters(self, most: int) -> str:
        found = ""
        for text in reversed(self._texts):
            found = text.text[-most:] + found
            if len(found) >= most:
                break
        return found[-most:]


def shown_after(line: int, text: str) -> tuple[int, int]:
    """How many characters a page shows more after `text`, and how many are then in its last line, from `line` before.

    As front ends do it: a carriage return goes to the line's beginning, and what follows overwrites.
    """
    if "\r" not in text:
        end = text.rfind("\n") + 1
        return len(text), len(text) - end if end else line + len(text)
    growth = 0
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
