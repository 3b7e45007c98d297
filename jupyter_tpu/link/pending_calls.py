"""Calls to the agent that have no result yet. They are kept when the connection is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.errors import TpuError, error_from_json
from jupyter_tpu.wire.frames import Frame, Kind, ProtocolError, encode_json


@dataclass
class PendingCall:
    """A call, with its encoded frame and the future for its result."""

    number: int
    frame: bytes
    answer: asyncio.Future[dict[str, Any]] = field(repr=False)


class PendingCalls:
    """The calls that the agent has not answered yet, by number.

    The agent performs the call with a given number only once, even if the client sends it several times.
    """

    def __init__(self) -> None:
        self._last_number = 0
        self._calls: dict[int, PendingCall] = {}

    def add(self, method: str, params: Mapping[str, Any]) -> PendingCall:
        """Create a call. The caller must send it immediately and after each reconnect."""
        self._last_number += 1
        frame = encode_json(Kind.CALL, {"method": method, "params": dict(params)}, number=self._last_number)
        call = PendingCall(self._last_number, frame, asyncio.get_running_loop().create_future())
        self._calls[call.number] = call
        return call

    def remove(self, call: PendingCall) -> None:
        """Remove a call whose caller has received the result or no longer waits."""
        self._calls.pop(call.number, None)

    def frames(self) -> Iterator[bytes]:
        """Return the frames to resend after a reconnect."""
        return (call.frame for call in self._calls.values())

    def answered(self, frame: Frame) -> None:
        """Set the result of the call that this RESULT frame belongs to.

        A result for an unknown call is ignored, because results may arrive twice after a reconnect.

        Raises:
            ProtocolError: the frame contains neither a result nor an error.
        """
        call, content = self._calls.get(frame.number), frame.json()
        if call is None or call.answer.done():  # the caller was cancelled, or the result arrived twice
            return
        error, result = content.get("error"), content.get("result")
        if isinstance(error, dict):
            call.answer.set_exception(error_from_json(error))
        elif isinstance(result, dict):
            call.answer.set_result(result)
        else:
            raise ProtocolError(f"a response without a result: {frame.payload[:60]!r}")

    def fail(self, error: TpuError) -> None:
        """Fail all calls, because no results will arrive."""
        for call in self._calls.values():
            if not call.answer.done():
                call.answer.set_exception(error)
