"""The gRPC face of the core: the services of the real endpoint, on one loopback port."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf.message import Message
from grpc_status import rpc_status

from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.errors import Refusal, WireFault
from jupyter_tpu.emulator.protos import requests_by_method
from jupyter_tpu.emulator.wire_faults import grpc_answer, serialised

TPU_SERVICE = "google.cloud.tpu.v2.Tpu"
OPERATIONS = ("GetOperation", "ListOperations", "CancelOperation", "DeleteOperation")
LOCATIONS = ("GetLocation", "ListLocations")

# else a second server could listen on the same port, and each would get some of the connections
_OPTIONS = (("grpc.so_reuseport", 0),)

Behaviour = Callable[[Any, Any], Awaitable[Message | bytes]]


def all_requests() -> dict[str, dict[str, Any]]:
    """Request class of each method, by service."""
    return {
        TPU_SERVICE: dict(requests_by_method()),
        "google.longrunning.Operations": {name: getattr(operations_pb2, f"{name}Request") for name in OPERATIONS},
        "google.cloud.location.Locations": {name: getattr(locations_pb2, f"{name}Request") for name in LOCATIONS},
    }


class GrpcSkin:
    """A ``grpc.aio`` server that hands every call to the core."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._server = grpc.aio.server(options=_OPTIONS)
        for service, requests in all_requests().items():
            handlers = {name: self._handler(name, request) for name, request in requests.items()}
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))

    async def start(self, port: int) -> int:
        """Listen on loopback; returns the port. Raises OSError when it is taken."""
        try:
            bound: int = self._server.add_insecure_port(f"127.0.0.1:{port}")
        except RuntimeError as error:
            raise OSError(errno.EADDRINUSE, f"port {port}: address already in use") from error
        await self._server.start()
        return bound

    async def close(self) -> None:
        await self._server.stop(grace=None)

    def _handler(self, name: str, request_class: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            self._behaviour(name),
            request_deserializer=request_class.FromString,
            response_serializer=serialised,
        )

    def _behaviour(self, name: str) -> Behaviour:
        async def answer(request: Any, context: Any) -> Message | bytes:
            try:
                return await self._cloud.call(name, request)
            except Refusal as refusal:
                return await _abort(context, refusal)
            except WireFault as fault:
                return await grpc_answer(fault, context, lambda message: message)

        return answer


async def _abort(context: Any, refusal: Refusal) -> Message:
    await context.abort_with_status(rpc_status.to_status(refusal.status))
    raise AssertionError("abort_with_status raises")
