"""What the cells of a notebook have put out, from the record of their kernel, wherever their pages were meanwhile.

Reading waits for the worker; putting together is done in a thread, in steps that leave the server's loop its turn.
An answer is one moment of the record: everything up to its `seq`, nothing newer. While cells run, that moment is not
when the reading began: over a slow link it may take many seconds. What takes too long is left for the next question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from jupyter_tpu.errors import BadInput
from jupyter_tpu.server.restore.cursors import Cursors
from jupyter_tpu.server.restore.output_views import answer, by_urgency
from jupyter_tpu.server.restore.request_listing import (
    HEAD_BYTES,
    Excerpt,
    Listed,
    Provisioner,
    list_requests,
    nonsense,
    read_request,
)
from jupyter_tpu.wire.frames import ProtocolError

_READ_BYTES = 64 * 1024 * 1024
_WITHOUT_CELL = 20
_UPDATING = 200
_AT_ONCE = 8
_LARGE_AT_ONCE = 2
"""Over a slow link more of them would only hold each other up."""

_BEGIN_S = 10
"""After this no other read begins: a page waits, and asks for what is missing request by request."""

_PIECE_BYTES = 256 * 1024
_READS = 2
"""The second reads only what has grown during the first, and so takes little longer than a round trip."""


async def outputs_of(
    provisioner: Provisioner, kernel_id: str, only: Iterable[str] = (), cursors: Cursors | None = None
) -> list[bytes]:
    """The answer to ``GET kernels/{kernel_id}/outputs`` as JSON in pieces.

    Args:
        only: ids of requests; empty for the last request of each cell, and the newest without one.
        cursors: what pages have got, so that what they have put into widgets stays there.

    Raises:
        LinkDown: the worker does not answer.
        AgentBroken: it answers nonsense.
    """
    excerpts: dict[str, Excerpt] = {}
    read: dict[str, int] = {}
    for _ in range(_READS):
        listing = await list_requests(provisioner, at_any_speed=True)
        chosen = _chosen(listing.requests, frozenset(only))
        to_read = _within_budget(chosen) + _updating(listing.requests, chosen)
        grown = [each for each in to_read if read.get(each.msg_id, -1) < each.last_seq]
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
        return await asyncio.to_thread(answer, kernel_id, listing, chosen, wanted, lambda each: arrived.get(each, 0))
    except ProtocolError as error:
        raise nonsense(error) from error


def joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same in larger pieces: each is a turn of the loop and a write of its own."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


async def _read_all(provisioner: Provisioner, requests: Sequence[Listed]) -> dict[str, Excerpt]:
    """What can be read in time, by msg_id; one that the agent has forgotten since it was listed is left out."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _BEGIN_S
    excerpts: dict[str, Excerpt] = {}

    async def read(waiting: Iterator[Listed]) -> None:
        for each in waiting:  # the first always begins, or one that is asked for alone might never come
            with suppress(BadInput):
                excerpts[each.msg_id] = await read_request(provisioner, each.msg_id, at_any_speed=True)
            if loop.time() > until:
                break

    small = [each for each in requests if each.to_read <= HEAD_BYTES]
    large = [each for each in requests if each.to_read > HEAD_BYTES]
    for waiting, at_once in ((iter(small), _AT_ONCE), (iter(large), _LARGE_AT_ONCE)):
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(at_once):
                    group.create_task(read(waiting))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
    return excerpts


def _chosen(requests: Sequence[Listed], only: frozenset[str]) -> list[Listed]:
    """The last of each cell and the newest without a cell, in the order asked."""
    if only:
        return [each for each in requests if each.msg_id in only]
    last = {each.cell_id: each.msg_id for each in requests if each.cell_id is not None}
    without = [each.msg_id for each in requests if each.cell_id is None][-_WITHOUT_CELL:]
    wanted = {*last.values(), *without}
    return [each for each in requests if each.msg_id in wanted]


def _within_budget(chosen: Iterable[Listed]) -> list[Listed]:
    taken: list[Listed] = []
    left = _READ_BYTES
    for each in by_urgency(chosen):
        if not taken or each.to_read <= left:
            taken.append(each)
            left -= each.to_read
    return taken


def _updating(requests: Sequence[Listed], chosen: Sequence[Listed]) -> list[Listed]:
    """Requests that are not shown, but may have updated displays of those that are."""
    if not chosen:
        return []
    shown, since = {each.msg_id for each in chosen}, min(each.first_seq for each in chosen)
    others = [each for each in requests if each.last_seq > since and each.msg_id not in shown]
    return [each for each in others if each.bytes <= HEAD_BYTES][-_UPDATING:]
