"""The date that each answer of the cloud carries, refusals too."""

from __future__ import annotations

import contextlib
from typing import Any

import grpc
import grpc.aio

from jupyter_tpu.cloud.clock import CloudClock


class Dates(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    """Lets a clock learn from them; the last of a channel's interceptors measures the way best."""

    def __init__(self, clock: CloudClock) -> None:
        self._clock = clock

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        asked = self._clock.steady()
        call = await continuation(client_call_details, request)
        with contextlib.suppress(grpc.RpcError):  # the caller reads the error from the call
            await call
        answered = self._clock.steady()
        # a refusal without an answer has trailers only
        for metadata in (await call.initial_metadata(), await call.trailing_metadata()):
            for name, value in metadata or ():
                if name == "date":
                    self._clock.learn(str(value), asked=asked, answered=answered)
        return call
