"""Read the outputs of a notebook's cells from the record of its kernel, for a page that was disconnected.

The event loop waits for the worker's messages. A thread reduces them to outputs, in steps that do not block the loop. A
response is a snapshot of the record up to its `seq`. Reading over a slow link may take many seconds; the snapshot shows
the state at the end of reading. Requests that take too long to read are left for the page's next call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from jupyter_tpu.errors import BadInput
from jupyter_tpu.server.restore.cursors import Cursors
from jupyter_tpu.server.restore.output_views import by_urgency, outputs_response
from jupyter_tpu.server.restore.request_listing import (
    HEAD_BYTES,
    ListedRequest,
    Provisioner,
    RequestRange,
    invalid_response,
    list_requests,
    read_request,
)
from jupyter_tpu.wire.frames import ProtocolError

_READ_BYTES = 64 * 1024 * 1024
"""Bytes of the record to read for one response. Bounds the server's memory use."""

_WITHOUT_CELL = 20
"""Number of requests without a cell id (from consoles and scripts) to show, newest first."""

_UPDATING = 200
"""Maximum number of small requests that are read only because they may have updated a shown display."""

_AT_ONCE = 8
"""Number of small requests to read in parallel, so that reading a notebook takes few round trips."""

_LARGE_AT_ONCE = 2
"""Number of large requests to read in parallel: over a slow link, more would only delay each other."""

_BEGIN_S = 10
"""Seconds after which no new read begins, because a page is waiting. It requests each missing request individually."""

_PIECE_BYTES = 256 * 1024
"""Bytes per write to the client: large enough for speed, but small enough not to block the event loop."""

_READS = 2
"""Number of passes.

The second pass reads only what was added during the first, so it takes little longer than a round trip.
"""


async def outputs_of(
    provisioner: Provisioner, kernel_id: str, only: Iterable[str] = (), cursors: Cursors | None = None
) -> list[bytes]:
    """Return the response to ``GET kernels/{kernel_id}/outputs`` as pieces of JSON.

    Args:
        only: ids of the requests to return; if empty, the last request of each cell and the newest requests without a
            cell.
        cursors: how much of the record each page has received. They prevent text in an Output widget from being added
            to a cell too.

    Raises:
        LinkDown: the worker does not respond.
        AgentBroken: the agent's response is invalid.
    """
    excerpts: dict[str, RequestRange] = {}
    read: dict[str, int] = {}
    for _ in range(_READS):
        listing = await list_requests(provisioner, at_any_speed=True)
        chosen = _chosen(listing.requests, frozenset(only))
        to_read = _within_budget(chosen) + _updating(listing.requests, chosen)
        grown = [each for each in to_read if read.get(each.msg_id, -1) < each.last_seq]
        # drop the older result even if the new read fails: the response must not mix two snapshots
        for each in grown:
            excerpts.pop(each.msg_id, None)
        excerpts |= await _read_all(provisioner, grown)
        read |= {each.msg_id: each.last_seq for each in grown}
        if not grown or all(each.state == "done" for each in listing.requests):
            break
    wanted = [excerpts[each.msg_id] for each in to_read if each.msg_id in excerpts]
    sessions = {each.session for each in chosen}
    arrived = {session: cursors.arrived(kernel_id, session) for session in sessions} if cursors else {}
    try:
        return await asyncio.to_thread(
            outputs_response, kernel_id, listing, chosen, wanted, lambda each: arrived.get(each, 0)
        )
    except ProtocolError as error:
        raise invalid_response(error) from error


def joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join small pieces into larger ones, because each piece costs a write and an iteration of the event loop."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


async def _read_all(provisioner: Provisioner, requests: Sequence[ListedRequest]) -> dict[str, RequestRange]:
    """Read as many requests as time allows; return them by msg_id, without requests that the agent no longer has."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _BEGIN_S
    excerpts: dict[str, RequestRange] = {}

    async def read(waiting: Iterator[ListedRequest]) -> None:
        # several calls of `read` share one iterator, so each call takes the next unread request
        for each in waiting:  # check the time after a read, so that at least one request is read
            with suppress(BadInput):
                excerpts[each.msg_id] = await read_request(provisioner, each.msg_id)
            if loop.time() > until:
                break

    # read small requests first, so that most cells are filled even if a large request takes all the time
    small = [each for each in requests if each.bytes_to_read <= HEAD_BYTES]
    large = [each for each in requests if each.bytes_to_read > HEAD_BYTES]
    for waiting, at_once in ((iter(small), _AT_ONCE), (iter(large), _LARGE_AT_ONCE)):
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(at_once):
                    group.create_task(read(waiting))
        except ExceptionGroup as failed:  # all reads fail for the same reason: the link or the agent
            raise failed.exceptions[0] from None
    return excerpts


def _chosen(requests: Sequence[ListedRequest], only: frozenset[str]) -> list[ListedRequest]:
    """Return the last request of each cell and the newest requests without a cell, sorted by when they were sent."""
    if only:
        return [each for each in requests if each.msg_id in only]
    last = {each.cell_id: each.msg_id for each in requests if each.cell_id is not None}
    without = [each.msg_id for each in requests if each.cell_id is None][-_WITHOUT_CELL:]
    wanted = {*last.values(), *without}
    return [each for each in requests if each.msg_id in wanted]


def _within_budget(chosen: Iterable[ListedRequest]) -> list[ListedRequest]:
    """Return the most urgent requests that together fit into `_READ_BYTES`, but at least one request."""
    taken: list[ListedRequest] = []
    left = _READ_BYTES
    for each in by_urgency(chosen):
        if not taken or each.bytes_to_read <= left:
            taken.append(each)
            left -= each.bytes_to_read
    return taken


def _updating(requests: Sequence[ListedRequest], chosen: Sequence[ListedRequest]) -> list[ListedRequest]:
    """Return requests that are not in `chosen`, but may have updated the displays of `chosen` requests."""
    if not chosen:
        return []
    shown, since = {each.msg_id for each in chosen}, min(each.first_seq for each in chosen)
    others = [each for each in requests if each.last_seq > since and each.msg_id not in shown]
    return [each for each in others if each.bytes <= HEAD_BYTES][-_UPDATING:]
