"""What was read of a kernel's requests as the answer of a route, in JSON. Runs in a thread, and waits for nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jupyter_tpu.outputs import Arrived, Reducer, Rendered, Request, compact, render
from jupyter_tpu.server.restore.request_listing import Excerpt, Listed, Listing
from jupyter_tpu.wire.entries import HEADER_BYTES, Entry, EntryDecoder
from jupyter_tpu.wire.messages import channel_name

_ANSWER_TEXT = 10_000_000
_ANSWER_BUNDLES = 50_000_000


def _nothing(_session: str) -> int:
    """No page has got anything."""
    return 0


def by_urgency(chosen: Iterable[Listed]) -> list[Listed]:
    """Those still at work first, then the newest."""
    return sorted(chosen, key=lambda each: (each.state != "done", each.first_seq), reverse=True)


def answer(
    kernel_id: str, listing: Listing, chosen: Sequence[Listed], excerpts: Iterable[Excerpt], arrived: Arrived = _nothing
) -> list[bytes]:
    """The answer in pieces, none of which takes long to make.

    Args:
        arrived: as for `Reducer`.

    Raises:
        ProtocolError: `excerpts` are no entries of a record.
    """
    reducer = reduced(excerpts, listing.next_seq - 1, arrived)
    head = {
        "kernel_id": kernel_id,
        "seq": listing.next_seq - 1,
        "execution_state": listing.execution_state,
        "link": listing.link,
    }
    pieces = [json.dumps(head)[:-1].encode(), b', "requests": [']
    for place, view in enumerate(_views(chosen, reducer)):
        pieces += [b", " if place else b"", *_json_pieces(view)]
    return [*pieces, b"]}"]


def reduced(excerpts: Iterable[Excerpt], last_seq: int, arrived: Arrived = _nothing) -> Reducer:
    """Entries of all requests in the order of the record, because one may update the displays of another."""
    steps: list[tuple[int, int, Any]] = []
    for excerpt in excerpts:
        entries = list(EntryDecoder().feed(excerpt.entries))
        steps += [(entry.seq, 0, entry) for entry in entries if entry.seq <= last_seq]
        if excerpt.omitted_bytes and entries:
            steps.append((excerpt.head_seq, 1, (excerpt.msg_id, _omitted_text(excerpt, entries))))
    reducer = Reducer(arrived=arrived)
    for _, is_omission, step in sorted(steps, key=lambda each: each[:2]):
        if is_omission:
            reducer.omit(*step)
        else:
            reducer.feed(step.seq, channel_name(step.channel), step.parts)
    return reducer


def _omitted_text(excerpt: Excerpt, entries: Sequence[Entry]) -> int:
    """About how much text was left out: without the headers, which are as large here as there."""
    around = sum(_entry_bytes(entry) - max(map(len, entry.parts), default=0) for entry in entries)
    return max(1, excerpt.omitted_bytes - excerpt.omitted_messages * around // len(entries))


def _entry_bytes(entry: Entry) -> int:
    return HEADER_BYTES + 4 * len(entry.parts) + sum(map(len, entry.parts))


def _views(chosen: Sequence[Listed], reducer: Reducer) -> list[dict[str, Any]]:
    """Those that find no room are named without their outputs."""
    views: dict[str, dict[str, Any]] = {}
    text, bundles = _ANSWER_TEXT, _ANSWER_BUNDLES
    for listed in by_urgency(chosen):
        request = reducer.requests.get(listed.msg_id)
        rendered = render(request) if request else None
        if rendered and (not views or (rendered.text_size <= text and rendered.bundle_size <= bundles)):
            text, bundles = text - rendered.text_size, bundles - rendered.bundle_size
            views[listed.msg_id] = _view(listed, request, rendered)
        else:
            views[listed.msg_id] = _view(listed, request, None)
    return [views[listed.msg_id] for listed in chosen]


def _view(listed: Listed, request: Request | None, rendered: Rendered | None) -> dict[str, Any]:
    state = request.state if request and request.state not in ("queued", "running") else listed.outcome
    is_open = state in ("queued", "running")
    return {
        "msg_id": listed.msg_id,
        "session": listed.session,
        "cell_id": listed.cell_id,
        "code": request.code if request else "",
        "header": request.header if request else _header(listed),
        "state": state,
        "status": (request.status if request else None) or listed.status,
        "execution_count": (request.execution_count if request else None) or listed.execution_count,
        "outputs": rendered.outputs if rendered else None,
        "messages": compact(request, rendered) if request and rendered and is_open else None,
        "input": _input(request) if request and listed.input_seq is not None else None,
        "captured": request.captured if request else 0,
        "omitted_bytes": rendered.omitted_bytes if rendered else listed.bytes,
        "first_seq": listed.first_seq,
        "last_seq": listed.last_seq,
    }


def _header(listed: Listed) -> dict[str, Any]:
    return {"msg_id": listed.msg_id, "session": listed.session, "msg_type": "execute_request"}


def _input(request: Request) -> dict[str, Any] | None:
    message = request.input
    if message is None:
        return None
    return {
        "header": message.header,
        "parent_header": message.parent,
        "metadata": {},
        "content": message.content,
        "msg_type": message.kind,
        "channel": "stdin",
    }


def _json_pieces(view: Mapping[str, Any]) -> Iterator[bytes]:
    """A view as JSON; each output by itself, because encoding gives no other thread a turn."""
    lists = {name: view[name] for name in ("outputs", "messages")}
    yield json.dumps({name: value for name, value in view.items() if name not in lists})[:-1].encode()
    for name, values in lists.items():
        yield f', "{name}": '.encode()
        yield from _list_pieces(values)
    yield b"}"


def _list_pieces(values: Sequence[Any] | None) -> Iterator[bytes]:
    if values is None:
        yield b"null"
        return
    yield b"["
    for place, value in enumerate(values):
        yield (", " if place else "").encode() + json.dumps(value).encode()
    yield b"]"
