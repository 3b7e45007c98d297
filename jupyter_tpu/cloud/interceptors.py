"""gRPC interceptors for our calls: they add headers, read the cloud's clock, and report unreadable responses."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import grpc
import grpc.aio

from jupyter_tpu.cloud.cloud_clock import CloudClock

TIME_HEADER = "emulator-time"
"""Header with an emulated cloud's virtual time: Unix seconds, and virtual seconds per real second."""


class HeaderInterceptor(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    """An interceptor that adds `headers` to calls without TLS, where gRPC doesn't allow call credentials.

    Header names must be in lower case, as required by HTTP/2.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Add the headers; gRPC runs this for each call."""
        present = tuple(client_call_details.metadata or ())
        metadata = grpc.aio.Metadata(*present, *self._headers.items())
        return await continuation(client_call_details._replace(metadata=metadata), request)


class ClockInterceptor(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    """An interceptor that updates a clock from the date of each response, including refusals.

    Make it the last interceptor of a channel, so that it times only the call. If the clock does not accept the date of
    a response, a call that only reads is sent again. A date that was not accepted affects costs only if the second
    response confirms it.
    """

    def __init__(self, clock: CloudClock, *, is_emulated: bool = False) -> None:
        self._clock = clock
        self._is_emulated = is_emulated

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Update the clock from the response; gRPC runs this for each call."""
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
        # An error without a response message has only trailers. If there are several dates, use only the first one, so
        # that a response can't confirm itself.
        metadata = [*(await call.initial_metadata() or ()), *(await call.trailing_metadata() or ())]
        times = [str(value) for name, value in metadata if name == TIME_HEADER] if self._is_emulated else []
        if times and self._clock.follow(times[0], asked=asked, answered=answered):
            return call, True
        dates = [str(value) for name, value in metadata if name == "date"]
        is_believed = not dates or self._clock.learn(dates[0], asked=asked, answered=answered)
        return call, is_believed


class UnreadableAnswerInterceptor(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    """An interceptor that raises an error for an undecodable response, as synchronous gRPC does.

    Asynchronous gRPC returns None for such a response and only logs the problem.
    """

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Raise an error for an unreadable response; gRPC runs this for each call."""
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
    """Return whether a gRPC method, given by its full name, is read-only and may be repeated."""
    name = method.decode() if isinstance(method, bytes) else method
    return name.rpartition("/")[2].startswith(("Get", "List"))
