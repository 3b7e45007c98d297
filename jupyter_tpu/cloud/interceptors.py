"""The gRPC interceptors of our calls: headers of our own, the cloud's clock, and answers that cannot be read."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import grpc
import grpc.aio

from jupyter_tpu.cloud.cloud_clock import CloudClock

TIME_HEADER = "emulator-time"
"""Header with which an emulated cloud sends its virtual time: Unix seconds, and how many pass in a real second."""


class HeaderInterceptor(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    """Add `headers` to every call of a channel without TLS, for which gRPC allows no call credentials.

    Their names must be in lower case, as HTTP/2 requires.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Add the headers; gRPC calls it for each call."""
        present = tuple(client_call_details.metadata or ())
        metadata = grpc.aio.Metadata(*present, *self._headers.items())
        return await continuation(client_call_details._replace(metadata=metadata), request)


class ClockInterceptor(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    """Let a clock learn from the date of each answer, refusals included.

    Make it the last interceptor of a channel, so that it times only the call. A read whose date is not believed is sent
    a second time: the next answer confirms the date, or shows that it was wrong, before costs are counted by it.
    """

    def __init__(self, clock: CloudClock, *, is_emulated: bool = False) -> None:
        self._clock = clock
        self._is_emulated = is_emulated

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Let the clock learn from the answer; gRPC calls it for each call."""
        call, is_believed = await self._learn_from(continuation, client_call_details, request)
        if not is_believed and only_reads(client_call_details.method):
            call, _ = await self._learn_from(continuation, client_call_details, request)
        return call

    async def _learn_from(self, continuation: Any, client_call_details: Any, request: Any) -> tuple[Any, bool]:
        asked = self._clock.steady()
        call = await continuation(client_call_details, request)
        with contextlib.suppress(grpc.RpcError):  # the caller reads the error from the call itself
            await call
        answered = self._clock.steady()
        # A refusal without an answer has trailers only. Only the first date counts: one answer must not confirm itself.
        metadata = [*(await call.initial_metadata() or ()), *(await call.trailing_metadata() or ())]
        times = [str(value) for name, value in metadata if name == TIME_HEADER] if self._is_emulated else []
        if times and self._clock.follow(times[0], asked=asked, answered=answered):
            return call, True
        dates = [str(value) for name, value in metadata if name == "date"]
        is_believed = not dates or self._clock.learn(dates[0], asked=asked, answered=answered)
        return call, is_believed


class UnreadableAnswerInterceptor(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    """Raise the error that the synchronous gRPC raises for an answer that it cannot decode.

    The asynchronous gRPC returns None for it and mentions it only in a log.
    """

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Raise an error for an unreadable answer; gRPC calls it for each call."""
        call = await continuation(client_call_details, request)
        if await call is None:
            raise grpc.aio.AioRpcError(
                grpc.StatusCode.INTERNAL,
                initial_metadata=grpc.aio.Metadata(),
                trailing_metadata=grpc.aio.Metadata(),
                details="The response from the cloud cannot be read.",
            )
        return call


def only_reads(method: str | bytes) -> bool:
    """Return whether a gRPC method, given by its full name, only reads and may be called again."""
    name = method.decode() if isinstance(method, bytes) else method
    return name.rpartition("/")[2].startswith(("Get", "List"))
