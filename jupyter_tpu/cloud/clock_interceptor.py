"""A gRPC interceptor that sets the cloud's clock by the date of each answer, refusals included."""

from __future__ import annotations

import contextlib
from typing import Any

import grpc
import grpc.aio

from jupyter_tpu.cloud.cloud_clock import CloudClock


class ClockInterceptor(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    """Lets a clock learn from the dates; make it the last interceptor of a channel, so that it times only the call.

    A read whose date is not believed is sent a second time: the next answer confirms the date, or shows that it was
    wrong, before costs are counted by it.
    """

    def __init__(self, clock: CloudClock) -> None:
        self._clock = clock

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Let the clock learn from the answer; gRPC calls it for each call."""
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
        # A refusal without an answer has trailers only. Only the first date counts: one answer must not confirm itself.
        metadata = [*(await call.initial_metadata() or ()), *(await call.trailing_metadata() or ())]
        dates = [str(value) for name, value in metadata if name == "date"]
        is_believed = not dates or self._clock.learn(dates[0], asked=asked, answered=answered)
        return call, is_believed


def only_reads(method: str | bytes) -> bool:
    """Return whether a gRPC method, given by its full name, only reads and may be called again."""
    name = method.decode() if isinstance(method, bytes) else method
    return name.rpartition("/")[2].startswith(("Get", "List"))
