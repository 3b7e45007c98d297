"""Serve the core over gRPC: the services of the real endpoint on one loopback port."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message
from google.rpc import code_pb2
from grpc_status import rpc_status

from jupyter_tpu.emulator.access.authentication import check_token
from jupyter_tpu.emulator.access.callers import Callers
from jupyter_tpu.emulator.api_faults.wire_faults import grpc_answer, serialised
from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.errors import Refusal, WireFault
from jupyter_tpu.emulator.resources.message_types import PACKAGES
from jupyter_tpu.emulator.resources.request import V2, V2ALPHA1
from jupyter_tpu.emulator.transport.ports import LOOPBACK
from jupyter_tpu.emulator.transport.versions import (
    LOCATIONS,
    OPERATIONS,
    View,
    methods_of,
    request_class,
    request_from_protobuf,
)

# otherwise a second server could listen on the same port, and each would get some of the connections
_OPTIONS = (("grpc.so_reuseport", 0),)

Behaviour = Callable[[bytes, Any], Awaitable[Message | bytes]]


TIME_HEADER = "emulator-time"
"""Header of a response: virtual Unix seconds, and virtual seconds per real second. Google sends no such header."""


def services() -> dict[str, tuple[str, list[str]]]:
    """Return the API version and the methods of each service; mixin services have no API version."""
    return {
        "google.cloud.tpu.v2.Tpu": (V2, methods_of(V2)),
        "google.cloud.tpu.v2alpha1.Tpu": (V2ALPHA1, methods_of(V2ALPHA1)),
        "google.longrunning.Operations": (V2, list(OPERATIONS)),
        "google.cloud.location.Locations": (V2, list(LOCATIONS)),
    }


class GrpcServer:
    """A ``grpc.aio`` server that passes every call to the core."""

    def __init__(self, cloud: Cloud, asks_for_token: Callable[[], bool], callers: Callers) -> None:
        self._cloud = cloud
        self._callers = callers
        self._port = 0
        self._asks_for_token = asks_for_token
        self._server = grpc.aio.server(options=_OPTIONS)
        for service, (version, methods) in services().items():
            handlers = {name: self._handler(service, version, name) for name in methods}
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))

    async def start(self, port: int) -> int:
        """Listen on loopback; return the port. Raises OSError if the port is in use."""
        try:
            self._port = self._server.add_insecure_port(f"{LOOPBACK}:{port}")
        except RuntimeError as error:
            raise OSError(errno.EADDRINUSE, f"port {port}: address already in use") from error
        await self._server.start()
        return self._port

    async def close(self) -> None:
        """Abort all calls and stop the server."""
        await self._server.stop(grace=None)

    def _handler(self, service: str, version: str, name: str) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            self._behaviour(service, version, name),
            # no deserializer: `message_in` parses the bytes, so that an invalid message is rejected like any bad
            # request. If grpc parsed them, it would return UNKNOWN with a Python error and log a traceback
            request_deserializer=None,
            response_serializer=serialised,
        )

    def _behaviour(self, service: str, version: str, name: str) -> Behaviour:
        # create the view once per method, because it doesn't depend on the call
        view = View(version, packaged, self._cloud.extras_of if version != V2 else _no_extras)
        kind = request_class(version, name)

        async def answer(sent: bytes, context: Any) -> Message | bytes:
            try:
                self._check_caller(context, f"{service}.{name}")
                request = message_in(sent, kind)
                shown = view.shown(await self._cloud.call(request_from_protobuf(version, name, request)))
            except Refusal as refusal:
                await self._send_date(context)
                return await _abort(context, refusal)
            except WireFault as fault:
                # don't send a date, because a broken connection couldn't send it either
                return await grpc_answer(fault, context, view.shown)
            await self._send_date(context)
            return shown

        return answer

    async def _send_date(self, context: Any) -> None:
        metadata = [("date", self._cloud.scripted.date())]
        if self._cloud.shows_time:
            metadata.append((TIME_HEADER, f"{self._cloud.clock.now():.6f} {self._cloud.clock.rate:g}"))
        await context.send_initial_metadata(metadata)

    def _check_caller(self, context: Any, method: str) -> None:
        """Raise an error if another user makes the call or its token is invalid; `method` is the full name."""
        header = str(dict(context.invocation_metadata() or ()).get("authorization", ""))
        peer = context.peer().rpartition(":")[2]  # the peer is, for example, ipv4:127.0.0.1:40000
        ends = ((LOOPBACK, int(peer)), (LOOPBACK, self._port)) if peer.isdecimal() else None
        self._callers.check(ends, header, method)
        if self._asks_for_token():
            check_token(header, method)
        self._cloud.workers.tokens.check(header, method)


def packaged(version: str, name: str) -> Any:
    """Create an empty protobuf message of the class that google-cloud-tpu provides under this name."""
    return getattr(PACKAGES[version], name).pb()()


def _no_extras(_: str) -> dict[str, Any]:
    """Return an empty mapping, because v2's protobufs have no fields for extras."""
    return {}


async def _abort(context: Any, refusal: Refusal) -> Message:
    await context.abort_with_status(rpc_status.to_status(refusal.status))
    raise AssertionError("abort_with_status() did not raise an error")


@assumed(
    "no-protobuf", "A gRPC request that is not a valid protobuf message is refused with INTERNAL and gRPC's own text."
)
def message_in(sent: bytes, kind: type[Any]) -> Any:
    """Parse a protobuf message of the type `kind`.

    Raises:
        Refusal: the bytes are not a valid message of this type.
    """
    try:
        return kind.FromString(sent)
    except DecodeError as error:
        text = "Exception deserializing request!"
        raise errors.Refusal(errors.status_of(code_pb2.INTERNAL, text)) from error
