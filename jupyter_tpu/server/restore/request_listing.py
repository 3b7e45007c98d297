"""List a kernel's requests and read their messages through calls to the agent."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from jupyter_tpu.errors import AgentBroken, LinkDown

HEAD_BYTES = 256 * 1024
TAIL_BYTES = 2 * 1024 * 1024
"""Bytes to read at the start and at the end of a request's messages; much more than is shown."""

_PATIENCE_S = 10  # a page waits for the response; the limit is longer than a round trip over any usable link
_LOOK_S = 1  # an error that needs the user's action is reported within this time
_UP = ("live", "resuming")


class Provisioner(Protocol):
    """The part of a kernel's provisioner that this module uses."""

    @property
    def link_state(self) -> Any: ...

    async def call(self, method: str, **params: Any) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class ListedRequest:
    """A request in the agent's list, with the fields of the response to ``list_requests``."""

    msg_id: str
    session: str
    cell_id: str | None
    first_seq: int
    last_seq: int
    bytes: int
    state: str
    status: str | None
    execution_count: int | None
    input_seq: int | None

    @property
    def outcome(self) -> str:
        """The state, or the final status of a request that did not run to completion."""
        return self.status if self.state == "done" and self.status in ("aborted", "lost") else self.state

    @property
    def bytes_to_read(self) -> int:
        """The maximum number of bytes that `read_request` reads for this request."""
        return min(self.bytes, HEAD_BYTES + TAIL_BYTES)


@dataclass(frozen=True, slots=True)
class Listing:
    """The agent's list of a kernel's requests; all messages before `next_seq` are in the record."""

    requests: Sequence[ListedRequest]
    next_seq: int
    execution_state: str
    link: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RequestRange:
    """The record entries that were read for a request; omitted entries, if any, directly follow entry `head_seq`."""

    msg_id: str
    entries: bytes
    head_seq: int
    omitted_bytes: int
    omitted_messages: int


async def list_requests(provisioner: Provisioner, *, at_any_speed: bool = False) -> Listing:
    """Return all requests in the kernel's record.

    Args:
        at_any_speed: whether to wait as long as the link is up, however slow it is.

    Raises:
        LinkDown: the worker does not respond.
        AgentBroken: the agent's response is invalid.
    """
    answer = await _call(provisioner, "list_requests", {}, at_any_speed=at_any_speed)
    link = asdict(provisioner.link_state)
    try:
        requests = [_listed(each) for each in answer["requests"]]
        return Listing(requests, int(answer["next_seq"]), str(answer["execution_state"]), link)
    except (KeyError, TypeError, ValueError) as error:
        raise invalid_response(error) from error


async def read_request(provisioner: Provisioner, msg_id: str, *, waits_for_link: bool = False) -> RequestRange:
    """Read the messages of a request, however slow the link is.

    Args:
        waits_for_link: if the link is down, wait until it is up again, is lost, or needs repair. The page gets no
            response until then.

    Raises:
        BadInput: the agent no longer has the request.
        WorkerUnreachable: the link is lost, or it is down and `waits_for_link` is false (`LinkDown`).
        AgentBroken: the agent's response is invalid.
    """
    params = {"msg_id": msg_id, "head_bytes": HEAD_BYTES, "tail_bytes": TAIL_BYTES}
    answer = await _call(provisioner, "read_request", params, at_any_speed=True, waits_for_link=waits_for_link)
    try:
        entries = base64.b64decode(answer["entries"])
        omitted = int(answer["omitted_bytes"]), int(answer["omitted_messages"])
        return RequestRange(msg_id, entries, int(answer["head_seq"]), *omitted)
    except (KeyError, TypeError, ValueError) as error:
        raise invalid_response(error) from error


def _listed(row: Mapping[str, Any]) -> ListedRequest:
    # ignore fields that a newer agent adds
    listed = ListedRequest(**{name: row[name] for name in ListedRequest.__slots__})
    numbers = (listed.first_seq, listed.last_seq, listed.bytes)
    if not isinstance(listed.msg_id, str) or not all(isinstance(number, int) for number in numbers):
        raise TypeError(f"not a valid request: {str(row)[:200]}")
    return listed


async def _call(
    provisioner: Provisioner,
    method: str,
    params: Mapping[str, Any],
    *,
    at_any_speed: bool,
    waits_for_link: bool = False,
) -> dict[str, Any]:
    """Call the agent; by default, fail immediately if the link is down, because a page is waiting for the response."""
    status = provisioner.link_state
    if status.needs_repair or (status.state == "down" and not waits_for_link):
        raise _link_down(status.message)
    call = asyncio.create_task(provisioner.call(method, **params))
    try:
        while not (await asyncio.wait([call], timeout=_LOOK_S if waits_for_link else _PATIENCE_S))[0]:
            status = provisioner.link_state
            # a silent link changes its state after 12 s, so this loop ends
            is_slow = at_any_speed and (waits_for_link or status.state in _UP)
            if status.needs_repair or not is_slow:
                raise _link_down("The worker is not responding.")
        return call.result()
    finally:
        call.cancel()


def _link_down(message: str) -> LinkDown:
    return LinkDown(
        message or "The worker is disconnected.",
        exists="The kernel is probably still running; the worker keeps its outputs.",
        hint="Try again when the connection is back.",
    )


def invalid_response(error: Exception) -> AgentBroken:
    """Return the exception for an unreadable response from the agent."""
    return AgentBroken("The agent's response is invalid.", raw=f"{type(error).__name__}: {error}"[:500])
