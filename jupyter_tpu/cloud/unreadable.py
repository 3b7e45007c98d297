"""A gRPC interceptor that turns unreadable answers into errors.

Python's asynchronous gRPC returns None for an answer that it cannot decode, and mentions it only in a log.
"""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio


class UnreadableAnswerInterceptor(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    """Raises the error that the synchronous gRPC raises in this case."""

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
