"""The way from Google's client to the emulated cloud where both are in one process: no socket, no thread, no time."""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from grpc_status import rpc_status
from virtual_loop import OWNER

from jupyter_tpu.cloud.cloud_clock import CloudClock
from jupyter_tpu.cloud.interceptors import only_reads
from jupyter_tpu.emulator.api_faults.wire_faults import grpc_answer, serialised
from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.resources.errors import Refusal, WireFault
from jupyter_tpu.emulator.resources.request import V2
from jupyter_tpu.emulator.transport.grpc_server import message_in, packaged, services
from jupyter_tpu.emulator.transport.versions import View, request_class, request_from_protobuf

ONE_WAY_S = 0.05
_VERSIONS = {service: version for service, (version, _) in services().items()}


class CloudLine(grpc.aio.Channel):
    """A channel of one process. What was sent arrives, even when the process that sent it is dead by then.

    The `clock` of the process learns from the date of each answer, which is that of virtual time here.
    """

    def __init__(self, cloud: Cloud, clock: CloudClock | None = None) -> None:
        self._cloud = cloud
        self._clock = clock or CloudClock()
        self._unary_unary_interceptors: list[Any] = []  # Google's client adds its own
        self._on_the_way: set[asyncio.Task[bytes]] = set()
        self.is_cut = False

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        service, _, name = method.removeprefix("/").partition("/")
        version = _VERSIONS[service]

        async def call(request: Any, **_: Any) -> Any:
            is_believed, answer = await self._answered(version, name, request_serializer(request))
            if not is_believed and only_reads(method):
                _, answer = await self._answered(version, name, request_serializer(request))
            try:
                return response_deserializer(answer)
            except DecodeError as error:
                raise _failure(grpc.StatusCode.INTERNAL, "The response from the cloud cannot be read.") from error

        return call

    async def _answered(self, version: str, name: str, sent: bytes) -> tuple[bool, bytes]:
        """Whether the date of the answer is believed, and the answer."""
        asked = self._clock.steady()
        answer = await self._carried(version, name, sent)
        date = formatdate(self._cloud.clock.now() - ONE_WAY_S, usegmt=True)
        return self._clock.learn(date, asked=asked, answered=self._clock.steady()), answer

    async def _carried(self, version: str, name: str, sent: bytes) -> bytes:
        if self.is_cut:
            raise _failure(grpc.StatusCode.CANCELLED, "The process is dead.")  # nothing asks a second time
        owner = OWNER.set(None)
        arriving = asyncio.create_task(self._arrived(version, name, sent))
        OWNER.reset(owner)
        self._on_the_way.add(arriving)
        arriving.add_done_callback(self._is_over)
        answer = await asyncio.shield(arriving)
        await asyncio.sleep(ONE_WAY_S)
        return answer

    def _is_over(self, arriving: asyncio.Task[bytes]) -> None:
        self._on_the_way.discard(arriving)
        if not arriving.cancelled():
            arriving.exception()  # nobody may be left to hear of it

    async def _arrived(self, version: str, name: str, sent: bytes) -> bytes:
        await asyncio.sleep(ONE_WAY_S)
        view = View(version, packaged, self._cloud.extras_of if version != V2 else _no_extras)
        try:
            request = message_in(sent, request_class(version, name))
            answer = view.shown(await self._cloud.call(request_from_protobuf(version, name, request)))
        except Refusal as refusal:
            status = rpc_status.to_status(refusal.status)
            raise _failure(status.code, status.details, status.trailing_metadata) from None
        except WireFault as fault:
            answer = await grpc_answer(fault, _Context(), view.shown)
        return serialised(answer)

    async def emptied(self) -> None:
        """Until all that was sent has arrived."""
        while self._on_the_way:
            await asyncio.wait(list(self._on_the_way))

    async def close(self, grace: float | None = None) -> None:
        """Nothing is open."""

    async def __aenter__(self) -> CloudLine:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return grpc.ChannelConnectivity.READY

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        raise NotImplementedError

    async def channel_ready(self) -> None:
        """It always is."""

    def unary_stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def stream_unary(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def stream_stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


class _Context:
    """What a fault of the wire asks of a server's context."""

    async def abort(self, code: grpc.StatusCode, words: str) -> None:
        raise _failure(code, words)


def _failure(code: grpc.StatusCode, words: str, trailing: Any = ()) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailing), details=words)


def _no_extras(_: str) -> dict[str, Any]:
    return {}
