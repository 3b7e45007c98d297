"""What the agent tells of a kernel's requests, and what is read of each."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from jupyter_tpu.errors import AgentBroken, LinkDown

HEAD_BYTES = 256 * 1024
TAIL_BYTES = 2 * 1024 * 1024
"""How much of a request's messages is read at the most; the limits of what is shown lie well below."""

_PATIENCE_S = 10
_UP = ("live", "resuming")


class Provisioner(Protocol):
    """What is needed of a kernel's provisioner."""

    @property
    def link_state(self) -> Any: ...

    async def call(self, method: str, **params: Any) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Listed:
    """A request as the agent lists it."""

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
        """One word for state and status."""
        return self.status if self.state == "done" and self.status in ("aborted", "lost") else self.state

    @property
    def to_read(self) -> int:
        return min(self.bytes, HEAD_BYTES + TAIL_BYTES)


@dataclass(frozen=True, slots=True)
class Listing:
    """What the agent knows of a kernel's requests; everything before `next_seq` is in the record."""

    requests: Sequence[Listed]
    next_seq: int
    execution_state: str
    link: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What was read of a request; what is left out stands behind `head_seq`."""

    msg_id: str
    entries: bytes
    head_seq: int
    omitted_bytes: int
    omitted_messages: int


async def list_requests(provisioner: Provisioner, *, at_any_speed: bool = False) -> Listing:
    """All requests in the kernel's record.

    Args:
        at_any_speed: wait for as long as the link is up, however slow it is.

    Raises:
        LinkDown: the worker does not answer.
        AgentBroken: it answers nonsense.
    """
    answer = await _ask(provisioner, "list_requests", {}, at_any_speed=at_any_speed)
    link = asdict(provisioner.link_state)
    try:
        requests = [_listed(each) for each in answer["requests"]]
        return Listing(requests, int(answer["next_seq"]), str(answer["execution_state"]), link)
    except (KeyError, TypeError, ValueError) as error:
        raise nonsense(error) from error


async def read_request(provisioner: Provisioner, msg_id: str, *, at_any_speed: bool = False) -> Excerpt:
    """The messages of a request.

    Args:
        at_any_speed: as for `list_requests`.

    Raises:
        LinkDown: the worker does not answer.
        AgentBroken: it answers nonsense.
    """
    params = {"msg_id": msg_id, "head_bytes": HEAD_BYTES, "tail_bytes": TAIL_BYTES}
    answer = await _ask(provisioner, "read_request", params, at_any_speed=at_any_speed)
    try:
        entries = base64.b64decode(answer["entries"])
        omitted = int(answer["omitted_bytes"]), int(answer["omitted_messages"])
        return Excerpt(msg_id, entries, int(answer["head_seq"]), *omitted)
    except (KeyError, TypeError, ValueError) as error:
        raise nonsense(error) from error


def _listed(told: Mapping[str, Any]) -> Listed:
    listed = Listed(**{name: told[name] for name in Listed.__slots__})
    numbers = (listed.first_seq, listed.last_seq, listed.bytes)
    if not isinstance(listed.msg_id, str) or not all(isinstance(number, int) for number in numbers):
        raise TypeError(f"a request of {str(told)[:200]}")
    return listed


async def _ask(
    provisioner: Provisioner, method: str, params: Mapping[str, Any], *, at_any_speed: bool
) -> dict[str, Any]:
    """Not for as long as the link may take to come back: a page is waiting."""
    status = provisioner.link_state
    if status.state == "down":
        raise _link_down(status.message)
    asking = asyncio.create_task(provisioner.call(method, **params))
    try:
        while not (await asyncio.wait([asking], timeout=_PATIENCE_S))[0]:
            # a silent link changes its state after 12 s, so this ends
            if not at_any_speed or provisioner.link_state.state not in _UP:
                raise _link_down("The worker does not answer.")
        return asking.result()
    finally:
        asking.cancel()


def _link_down(message: str) -> LinkDown:
    return LinkDown(
        message or "The link to the worker is down.",
        exists="The kernel runs on as far as is known, and what it puts out is kept on the worker.",
        hint="Ask again when the link is back.",
    )


def nonsense(error: Exception) -> AgentBroken:
    """What to raise when an answer cannot be read."""
    return AgentBroken("The agent's answer is invalid.", raw=f"{type(error).__name__}: {error}"[:500])
