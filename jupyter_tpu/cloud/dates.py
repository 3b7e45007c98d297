"""The date that each answer of the cloud carries, refusals too."""

from __future__ import annotations

import contextlib
from typing import Any

import grpc
import grpc.aio

from jupyter_tpu.cloud.clock import CloudClock


class Dates(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    """Lets a clock learn from them; the last of a channel's interceptors measures the way best.

    What only reads is asked again where its date is not believed: the next answer confirms it, or shows that it was
    wrong, before anybody counts by it.
    """

    def __init__(self, clock: CloudClock) -> None:
        self._clock = clock

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        call, is_believed = await self._learn_from(continuation, client_call_details, request)
        if not is_believed and only_reads(client_call_details.method):
            call, _ = await self._learn_from(continuation, client_call_details, request)
        return call

    async def _learn_from(self, continuation: Any, client_call_details: Any, request: Any) -> tuple[Any, bool]:
        asked = self._clock.steady()
        call = await continuation(client_call_details, request)
        with contextlib.suppress(grpc.RpcError):  # the caller reads the error from the call
            await call
        answered = self._clock.steady()
        # a refusal without an answer has trailers only; one answer may not confirm itself by both
        told = [*(await call.initial_metadata() or ()), *(await call.trailing_metadata() or ())]
        dates = [str(value) for name, value in told if name == "date"]
        is_believed = not dates or self._clock.learn(dates[0], asked=asked, answered=answered)
        return call, is_believed


def only_reads(method: str | bytes) -> bool:
    """Whether a method, by its full name as grpc has it, may be called again without harm."""
    name = method.decode() if isinstance(method, bytes) else method
    return name.rpartition("/")[2].startswith(("Get", "List"))
