"""Add headers to every call of a gRPC channel without TLS, for which gRPC allows no call credentials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc.aio


class HeaderInterceptor(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc has no types
    """Adds `headers`, whose names must be in lower case, as HTTP/2 requires."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Add the headers; gRPC calls it for each call."""
        present = tuple(client_call_details.metadata or ())
        metadata = grpc.aio.Metadata(*present, *self._headers.items())
        return await continuation(client_call_details._replace(metadata=metadata), request)
