"""Control a kernel on a node from a kernel on the user's machine: start it, run cells and forward messages."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

from jupyter_tpu.errors import KernelFailed, TpuError

T = TypeVar("T")
Message = Mapping[str, Any]
Show = Callable[[Message], None]

START_S = 600.0
"""Time limit for the start of a kernel, in seconds: a new worker first installs the agent and its packages."""
# How often to check whether the kernel is still running.
_LIFE_CHECK_S = 1.0
# Time limit for an unresponsive node while this process exits.
_CLOSE_S = 8.0
_EARLIER = "[a cell that was left running asks]"


class RemoteKernel:
    """A kernel on a node, identified by its kernelspec name. Call `start` and `close` once each.

    The client runs in a thread with its own event loop, because the waiting cell blocks the local kernel's event loop.
    """

    def __init__(self, kernel_name: str) -> None:
        self.kernel_name = kernel_name
        self._loop = asyncio.new_event_loop()
        self._manager = AsyncKernelManager(kernel_name=kernel_name)
        self._client: AsyncKernelClient | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="jupyter-tpu remote", daemon=True)

    def start(self) -> None:
        """Start the kernel, and wait until it responds.

        Raises:
            TpuError: the node cannot be used.
        """
        self._thread.start()
        try:
            self._wait(self._start())
        except BaseException:
            self.close()
            raise

    def run(self, code: str, show: Show) -> Mapping[str, Any]:
        """Run a cell, pass its messages to `show` in order, and return the content of its reply.

        The first interrupt of the local kernel interrupts the kernel on the node. After a second interrupt, this stops
        waiting, but the cell keeps running. If that cell asks for input later, the prompt names the node.

        Raises:
            KernelFailed: the kernel died.
            KeyboardInterrupt: the user interrupted twice.
        """
        # The other thread fills the queue. Only this thread calls `show`, because it prints into the local cell.
        messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        running = self._submit(self._run(code, messages.put))
        # None wakes the loop below when the cell has finished or failed.
        running.add_done_callback(lambda _: messages.put(None))
        is_interrupted = False
        while True:
            try:
                message = messages.get()
                if message is None:
                    return running.result()
                show(message)
            except KeyboardInterrupt:
                if is_interrupted or running.done():
                    running.cancel()
                    raise
                is_interrupted = True
                self._submit(self._interrupt())

    def answer(self, text: str) -> None:
        """Reply to an ``input_request``."""
        if self._client is not None:
            self._loop.call_soon_threadsafe(self._client.input, text)

    def evaluate(self, expression: str) -> Mapping[str, Any]:
        """Evaluate an expression on the node, and return its ``user_expressions`` entry from the Jupyter reply."""
        return self._wait(self._evaluate(expression))

    def close(self) -> None:
        """Shut down the kernel if its worker is reachable, and stop the thread."""
        with suppress(TpuError, TimeoutError, OSError, RuntimeError):
            self._wait(asyncio.wait_for(self._close(), _CLOSE_S))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        running = self._submit(work)
        try:
            return running.result()
        except KeyboardInterrupt:
            running.cancel()
            raise

    # -- coroutines in the other thread

    async def _start(self) -> None:
        await self._manager.start_kernel()
        client = self._manager.client()
        client.start_channels()
        self._client = client
        try:
            await client.wait_for_ready(timeout=START_S)
        except RuntimeError as error:
            raise KernelFailed("The kernel on the node is not responding.", raw=str(error)) from error

    async def _run(self, code: str, show: Show) -> Mapping[str, Any]:
        client = self._ready()
        msg_id = client.execute(code, allow_stdin=True)
        questions = asyncio.create_task(self._questions(client, msg_id, show))
        try:
            # Output and reply arrive on two channels in any order; the cell has finished when both are complete.
            work = asyncio.gather(self._follow(client, msg_id, show), self._reply(client, msg_id))
            _, reply = await self._while_alive(work)
            return dict(reply)
        finally:
            questions.cancel()
            await asyncio.gather(questions, return_exceptions=True)

    async def _while_alive(self, work: Awaitable[T]) -> T:
        """Return the result of `work`. Raises `KernelFailed` if the kernel dies first."""
        working, dead = asyncio.ensure_future(work), asyncio.create_task(self._until_dead())
        try:
            await asyncio.wait([working, dead], return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise KernelFailed(
                    "The kernel on the node has died.", hint="To start another kernel, run `%tpu attach NODE`."
                )
            return await working
        finally:
            for task in (working, dead):
                task.cancel()
            await asyncio.gather(working, dead, return_exceptions=True)

    async def _interrupt(self) -> None:
        await self._manager.interrupt_kernel()

    async def _evaluate(self, expression: str) -> Mapping[str, Any]:
        client = self._ready()
        msg_id = client.execute("", silent=True, user_expressions={"value": expression}, allow_stdin=False)
        reply = await self._while_alive(self._reply(client, msg_id))
        return dict(reply.get("user_expressions", {}).get("value", {}))

    async def _close(self) -> None:
        if self._client is not None:
            self._client.stop_channels()
        if self._manager.has_kernel:
            await self._manager.shutdown_kernel(now=True)

    async def _follow(self, client: AsyncKernelClient, msg_id: str, show: Show) -> None:
        """Forward the cell's published messages until the kernel is idle again."""
        while True:
            message = await client.get_iopub_msg()
            if message["parent_header"].get("msg_id") == msg_id:
                if message["content"].get("execution_state") == "idle":
                    return
                show(message)

    async def _reply(self, client: AsyncKernelClient, msg_id: str) -> Mapping[str, Any]:
        while True:
            message = await client.get_shell_msg()
            if message["parent_header"].get("msg_id") == msg_id:
                return dict(message["content"])

    async def _questions(self, client: AsyncKernelClient, msg_id: str, show: Show) -> None:
        while True:
            question = await client.get_stdin_msg()
            if question["parent_header"].get("msg_id") != msg_id:
                question["content"]["prompt"] = f"{_EARLIER} {question['content'].get('prompt', '')}"
            show(question)

    async def _until_dead(self) -> None:
        while await self._manager.is_alive():  # noqa: ASYNC110 - Jupyter's managers have no event for a kernel's death
            await asyncio.sleep(_LIFE_CHECK_S)

    def _ready(self) -> AsyncKernelClient:
        if self._client is None:
            raise KernelFailed(
                "The kernel on the node was not started.", hint="To start a kernel, run `%tpu attach NODE`."
            )
        return self._client
