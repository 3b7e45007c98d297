"""Serialise a kernel's requests and their outputs as the JSON response of a route. Call this in a thread."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jupyter_tpu.outputs import Arrived, Reducer, Rendered, Request, compact, render
from jupyter_tpu.server.restore.request_listing import ListedRequest, Listing, RequestRange
from jupyter_tpu.wire.entries import HEADER_BYTES, Entry, EntryDecoder
from jupyter_tpu.wire.multipart import channel_name

# Limits of one response; a page fetches the remaining requests individually. JupyterLab 4.6 takes about 2.5 s to draw
# 10 MB of text. Images draw faster (100 MB in 0.4 s) but must be fetched and parsed.
_ANSWER_TEXT = 10_000_000
_ANSWER_BUNDLES = 50_000_000


def _nothing(_session: str) -> int:
    """Return 0 for any session, as if its page had received nothing."""
    return 0


def by_urgency(chosen: Iterable[ListedRequest]) -> list[ListedRequest]:
    """Sort requests: unfinished requests first, then finished requests; the newest first in each group."""
    return sorted(chosen, key=lambda each: (each.state != "done", each.first_seq), reverse=True)


def outputs_response(
    kernel_id: str,
    listing: Listing,
    chosen: Sequence[ListedRequest],
    excerpts: Iterable[RequestRange],
    arrived: Arrived = _nothing,
) -> list[bytes]:
    """Return the response in pieces that can each be encoded quickly.

    Args:
        chosen: the requests to show, in this order.
        excerpts: the record entries of these requests and of other requests that may have updated their displays.
        arrived: what pages have received; see `Reducer`.

    Raises:
        ProtocolError: `excerpts` are not entries of a record.
    """
    # omit entries after the listing, so that the response is one snapshot and live messages continue at its seq
    reducer = reduce_excerpts(excerpts, listing.next_seq - 1, arrived)
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


def reduce_excerpts(excerpts: Iterable[RequestRange], last_seq: int, arrived: Arrived = _nothing) -> Reducer:
    """Feed the entries of all requests to one reducer, in the order of the record up to `last_seq`.

    Requests can't be reduced one at a time, because a request may update the displays of another request.
    """
    steps: list[tuple[int, int, Any]] = []
    for excerpt in excerpts:
        entries = list(EntryDecoder().feed(excerpt.entries))
        steps += [(entry.seq, 0, entry) for entry in entries if entry.seq <= last_seq]
        # a gap is a separate step, right after the entry before it
        if excerpt.omitted_bytes and entries:
            steps.append((excerpt.head_seq, 1, (excerpt.msg_id, _omitted_text(excerpt, entries))))
    reducer = Reducer(arrived=arrived)
    for _, is_omission, step in sorted(steps, key=lambda each: each[:2]):
        if is_omission:
            reducer.omit(*step)
        else:
            reducer.feed(step.seq, channel_name(step.channel), step.parts)
    return reducer


def _omitted_text(excerpt: RequestRange, entries: Sequence[Entry]) -> int:
    """Estimate the size of the omitted text, without headers. The average size of headers is taken from `entries`."""
    # the largest part of a stream message is its content; the other parts are headers and the frame
    around = sum(_entry_bytes(entry) - max(map(len, entry.parts), default=0) for entry in entries)
    return max(1, excerpt.omitted_bytes - excerpt.omitted_messages * around // len(entries))


def _entry_bytes(entry: Entry) -> int:
    return HEADER_BYTES + 4 * len(entry.parts) + sum(map(len, entry.parts))


def _views(chosen: Sequence[ListedRequest], reducer: Reducer) -> list[dict[str, Any]]:
    """Return a view of each request; a view that does not fit into the response has no outputs."""
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


def _view(listed: ListedRequest, request: Request | None, rendered: Rendered | None) -> dict[str, Any]:
    # the reducer has the result of a finished request; an open request may have no messages yet, so use its state from
    # the list
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


def _header(listed: ListedRequest) -> dict[str, Any]:
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
    """Encode a view one output at a time, because a single call to `json.dumps` would block other threads."""
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
