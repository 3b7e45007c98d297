"""The way from a browser to a Jupyter server, which tests cut and restore."""

from __future__ import annotations

import asyncio
import threading

from jupyter_tpu.emulator.network_faults.fault_proxy import FaultProxy
from jupyter_tpu.emulator.network_faults.verbs import link_fault_from_json


class PathToServer:
    """A proxy in a thread of its own."""

    def __init__(self, server_port: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._proxy = asyncio.run_coroutine_threadsafe(self._open(server_port), self._loop).result()
        self.port = self._proxy.port

    def fault(self, verb: str) -> None:
        self._loop.call_soon_threadsafe(self._proxy.apply, link_fault_from_json({"verb": verb}))

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self, server_port: int) -> FaultProxy:
        proxy = FaultProxy(("127.0.0.1", server_port))
        proxy.listen(("127.0.0.1", 0))
        return proxy
