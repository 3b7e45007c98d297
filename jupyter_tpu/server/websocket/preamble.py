"""The opening messages of a new page's connection: the kernel's state and a replay of the last request.

JupyterLab and Notebook ignore messages of requests that they did not send; VS Code remembers the request that it showed
when it was closed, and resumes the cell of that request when it receives the request's first message.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jupyter_tpu.outputs import Request, compact
from jupyter_tpu.server.restore.output_views import reduce_excerpts
from jupyter_tpu.server.restore.request_listing import ListedRequest, Listing, Provisioner, RequestRange, read_request
from jupyter_tpu.server.websocket.page_messages import KernelHeaders, MakeHeader, PageMessage
from jupyter_tpu.wire.entries import EntryDecoder
from jupyter_tpu.wire.multipart import channel_name


async def opening_messages(
    kernel: Provisioner, listing: Listing, make_header: KernelHeaders, before_seq: int, is_here: Callable[[bytes], bool]
) -> list[PageMessage]:
    """Return the opening messages for a page that follows the record from `before_seq`.

    Args:
        make_header: creates message headers. After a replay, all later headers have the session id of the replayed
            messages.
        is_here: a function that returns whether a page with the given session id is open; if so, that page shows the
            kernel's input request.

    Raises:
        TpuError: the worker does not respond, or its response is invalid.
    """
    last = _last_begun(listing.requests, before_seq)
    if last is None:
        return [status_message(make_header, shown_state(listing.execution_state))]
    excerpt = await read_request(kernel, last.msg_id)
    request = await asyncio.to_thread(_reduce, excerpt, before_seq - 1)
    if request is None:
        return [status_message(make_header, shown_state(listing.execution_state))]
    parent_header = json.dumps(request.header).encode()
    compacted = _compacted(request, last.first_seq)
    if compacted:
        make_header.store_header(compacted[-1].header)
    return [
        status_message(make_header, "busy", parent_header),  # makes VS Code resume the cell, even a finished one
        # VS Code appends to the cell's outputs, so clear them before the replay
        PageMessage.made(make_header("clear_output"), parent_header, {"wait": False}).at(last.first_seq),
        *compacted,
        status_message(
            make_header,
            shown_state(listing.execution_state),
            parent_header if listing.execution_state == "busy" else b"{}",
        ),
        *_still_open(_question(excerpt, last.input_seq), before_seq, is_here),
    ]


class Question(NamedTuple):
    """An input_request that waits for a reply; `addressee` is the id of the session to which it was sent."""

    seq: int
    addressee: bytes
    message: PageMessage


async def pending_question(kernel: Provisioner, listing: Listing) -> Question | None:
    """Return the input request that waits for a reply, or None.

    Raises:
        TpuError: the worker does not respond, or its response is invalid.
    """
    for each in listing.requests:
        if each.input_seq is not None:
            return _question(await read_request(kernel, each.msg_id), each.input_seq)
    return None


def shown_state(state: str) -> str:
    """Return the execution state to send to a page for a state that the agent reports.

    For "starting", a page gets "idle": the kernel accepts requests, and JupyterLab, which ignores the states around its
    own first requests, would show an unused kernel as starting forever. For "dead", a page gets "autorestarting",
    because JupyterLab permanently gives up on a dead kernel, although Jupyter Server is about to restart the kernel. If
    the server will not restart the kernel, the page gets "dead", and its session is not opened.
    """
    return {"starting": "idle", "dead": "autorestarting"}.get(state, state)


def status_message(make_header: MakeHeader, state: str, parent_header: bytes = b"{}") -> PageMessage:
    """Return a status message in the form that a kernel sends."""
    return PageMessage.made(make_header("status"), parent_header, {"execution_state": state})


def _last_begun(requests: Sequence[ListedRequest], before_seq: int) -> ListedRequest | None:
    """Return the newest request that the kernel has started. Queued requests have no messages to replay."""
    begun = (each for each in reversed(requests) if each.state != "queued" and each.first_seq < before_seq)
    return next(begun, None)


def _reduce(excerpt: RequestRange, last_seq: int) -> Request | None:
    return reduce_excerpts([excerpt], last_seq).requests.get(excerpt.msg_id)


def _compacted(request: Request, first_seq: int) -> list[PageMessage]:
    return [_from_compacted(message, first_seq) for message in compact(request)]


def _from_compacted(message: dict[str, Any], first_seq: int) -> PageMessage:
    parent_header = json.dumps(message["parent_header"]).encode()
    made = PageMessage.made(message["header"], parent_header, message["content"])
    return made.at(int(message["metadata"]["jupyter_tpu"]["seq"]), first_seq)


def _question(excerpt: RequestRange, seq: int | None) -> Question | None:
    for entry in EntryDecoder().feed(excerpt.entries):
        message = PageMessage.from_parts(entry.seq, channel_name(entry.channel), entry.parts)
        if entry.seq == seq and message:
            return Question(seq, entry.parts[0], message)
    return None


def _still_open(question: Question | None, before_seq: int, is_here: Callable[[bytes], bool]) -> list[PageMessage]:
    """Return the input request if it must be repeated, because its page is closed and no live message contains it."""
    is_open = question is not None and question.seq < before_seq and not is_here(question.addressee)
    return [question.message] if question and is_open else []
