"""Restore cells whose outputs were sent to a page twice, so that each output is shown only once.

When a connection closes, it is unknown how many of the last messages its page has read, so they are sent again. A page
with jupyter_tpu's front end drops repeated messages by their seqs. For any other page, additional messages clear the
cell after the repeated messages and restore its outputs from the record. These messages have the seqs of repeated
messages, so jupyter_tpu's front end drops them too.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence

from jupyter_tpu.agent.recording.jupyter_messages import json_object
from jupyter_tpu.errors import TpuError
from jupyter_tpu.outputs import Request, compact, render
from jupyter_tpu.server.restore.output_views import reduce_excerpts
from jupyter_tpu.server.restore.request_listing import Provisioner, RequestRange, read_request
from jupyter_tpu.server.websocket.page_messages import MakeHeader, PageMessage
from jupyter_tpu.wire.frames import ProtocolError

log = logging.getLogger(__name__)

_OUTPUTS = ("stream", "display_data", "execute_result", "error", "clear_output")


async def with_cells_refilled(
    kernel: Provisioner,
    messages: Sequence[PageMessage],
    repeated_until: int,
    make_header: MakeHeader,
    refused_bytes: int = sys.maxsize,
    unless_left_out: Callable[[PageMessage], list[PageMessage]] = lambda message: [message],
) -> list[PageMessage]:
    """Return the messages, with additional messages that restore cells whose outputs the page may receive twice.

    Args:
        repeated_until: the last seq that the page may have received.
        refused_bytes: a cell with an output of at least about this size is not restored, because the page would close
            its connection.
        unless_left_out: returns the given message, or a notice instead if its output is too large for this page.
    """
    last_outputs = _last_outputs(messages, repeated_until)
    result = []
    for message in messages:
        result.append(message)
        # insert the restored outputs right after the last repeated output, so that the cell's live messages come after
        # them
        if last_outputs.get(message.parent_id) is message:
            outputs = await _refill(kernel, message, make_header)
            filling = [each.at(message.seq) for output in outputs for each in unless_left_out(output)]
            # leave a margin, because `size` is only approximate
            result += filling if all(each.size < 0.9 * refused_bytes for each in filling) else []
    return result


def _last_outputs(messages: Sequence[PageMessage], repeated_until: int) -> dict[str, PageMessage]:
    """Return the last repeated output of each open request; front ends ignore messages of finished requests."""
    found: dict[str, PageMessage] = {}
    ended: set[str] = set()
    for message in messages:
        parent_id = message.parent_id
        if message.channel == "shell" or _is_idle(message):
            ended.add(parent_id)
        elif 0 < message.seq <= repeated_until and message.msg_type in _OUTPUTS and parent_id not in {*ended, ""}:
            found[parent_id] = message
    return found


async def _refill(kernel: Provisioner, last: PageMessage, make_header: MakeHeader) -> list[PageMessage]:
    """Return messages that clear a cell and show its outputs up to `last`, or [] if some of the outputs are unknown."""
    try:
        # wait for the link: without these messages, the page would show the outputs twice, and new outputs need the
        # link as well
        excerpt = await read_request(kernel, last.parent_id, waits_for_link=True)
        contents = await asyncio.to_thread(_contents, excerpt, last.seq)
    except (TpuError, ProtocolError) as error:
        log.info("a page may show outputs of %s twice: %s", last.parent_id, error)
        return []
    return [PageMessage.made(make_header(kind), last.parent_header, content).at(seq) for kind, content, seq in contents]


def _contents(excerpt: RequestRange, last_seq: int) -> list[tuple[str, dict[str, object], int]]:
    request = reduce_excerpts([excerpt], last_seq).requests.get(excerpt.msg_id)
    rendered = render(request) if request else None
    if request is None or rendered is None or not _is_whole(request, rendered.omitted_bytes):
        return []
    outputs = [each for each in compact(request, rendered) if each["msg_type"] in _OUTPUTS]
    will_follow = bool(outputs) and outputs[0]["msg_type"] != "clear_output"  # this prevents flicker
    shown = ((each["msg_type"], each["content"], int(each["metadata"]["jupyter_tpu"]["seq"])) for each in outputs)
    return [("clear_output", {"wait": will_follow}, last_seq), *shown]


def _is_whole(request: Request, omitted_bytes: int) -> bool:
    """Return whether all outputs of the request are known and belong in its cell, not in an Output widget."""
    has_beginning = request.busy is not None and request.busy.kind == "status"
    return has_beginning and not (request.captured or request.omitted_bytes or omitted_bytes)


def _is_idle(message: PageMessage) -> bool:
    return message.msg_type == "status" and json_object(message.content).get("execution_state") == "idle"
