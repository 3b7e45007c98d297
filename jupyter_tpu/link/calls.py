"""Calls to the agent that have no answer yet; they outlive the connection they were sent on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.errors import TpuError, error_from_json
from jupyter_tpu.wire.frames import Frame, Kind, ProtocolError, encode_json


@dataclass
class PendingCall:
    """A call: its frame, and the future of its answer."""

    number: int
    frame: bytes
    answer: asyncio.Future[dict[str, Any]] = field(repr=False)


class PendingCalls:
    """Numbers calls and matches answers to them. The agent performs each number once, however often it is sent."""

    def __init__(self) -> None:
        self._last_number = 0
        self._calls: dict[int, PendingCall] = {}

    def add(self, method: str, params: Mapping[str, Any]) -> PendingCall:
        """A new call, to be sent now and after each cut."""
        self._last_number += 1
        frame = encode_json(Kind.CALL, {"method": method, "params": dict(params)}, number=self._last_number)
        call = PendingCall(self._last_number, frame, asyncio.get_running_loop().create_future())
        self._calls[call.number] = call
        return call

    def remove(self, call: PendingCall) -> None:
        """Nobody waits for it any more."""
        self._calls.pop(call.number, None)

    def frames(self) -> Iterator[bytes]:
        """What must be sent again after a cut."""
        return (call.frame for call in self._calls.values())

    def answered(self, frame: Frame) -> None:
        """A RESULT came; one for an unknown call means nothing.

        Raises:
            ProtocolError: it holds neither result nor error.
        """
        call, content = self._calls.get(frame.number), frame.json()
        if call is None or call.answer.done():
            return
        error, result = content.get("error"), content.get("result")
        if isinstance(error, dict):
            call.answer.set_exception(error_from_json(error))
        elif isinstance(result, dict):
            call.answer.set_result(result)
        else:
            raise ProtocolError(f"an answer without a result: {frame.payload[:60]!r}")

    def fail(self, error: TpuError) -> None:
        """No answer will come."""
        for call in self._calls.values():
            if not call.answer.done():
                call.answer.set_exception(error)
