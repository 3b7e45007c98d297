"""The methods that clients call, and a memory of the answers, so that a repeated call is not performed twice."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import platform
import signal
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from jupyter_tpu import __version__
from jupyter_tpu.agent.autostop.daemon import AutostopDaemon
from jupyter_tpu.agent.kernels.kernel import Caller, Kernel
from jupyter_tpu.agent.kernels.kernels import Kernels
from jupyter_tpu.agent.kernels.request import Launch
from jupyter_tpu.agent.preemption.notices import Notices
from jupyter_tpu.agent.recording.excerpt import Excerpt, Span
from jupyter_tpu.errors import AgentBroken, BadInput, EnvironmentFailed, TpuError
from jupyter_tpu.wire.hello import AGENT_KNOWS

log = logging.getLogger(__name__)

Params = Mapping[str, Any]
Method = Callable[[Params], Awaitable[dict[str, Any]]]
Answer: TypeAlias = "asyncio.Task[dict[str, Any]]"

_REMEMBERED = 100
_REMEMBERED_CLIENTS = 1000
_ONLY_READ = (
    "activity",
    "check_restart",
    "environments",
    "examine",
    "kernel_info",
    "list_kernels",
    "list_requests",
    "metrics",
    "read_request",
    "status",
    "told",
    "who",
)
_ONCE = ("start_kernel", "restart_kernel", "kill_kernel", "interrupt")
_BY_PEOPLE = ("start_kernel", "restart_kernel", "interrupt", "free")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_NOTE_BYTES = 16 * 1024
# With one entry more of each, and in base64, they must fit in a RESULT frame.
_HEAD_BYTES = 1024 * 1024
_TAIL_BYTES = 2 * 1024 * 1024


class Methods:
    """What the agent does when asked by name; every method takes and returns a JSON object.

    Args:
        more: methods of parts that this one need not know.
    """

    def __init__(
        self,
        kernels: Kernels,
        python: str,
        socket: str,
        guard: AutostopDaemon,
        notices: Notices,
        more: Mapping[str, Method],
    ) -> None:
        self._kernels = kernels
        self._guard = guard
        self._socket = socket
        self._python = python
        self._started_at = time.time()
        self._table: dict[str, Method] = {
            "start_kernel": self.start_kernel,
            "restart_kernel": self.restart_kernel,
            "check_restart": self.check_restart,
            "kill_kernel": self.kill_kernel,
            "interrupt": self.interrupt,
            "forget_kernel": self.forget_kernel,
            "kernel_info": self.kernel_info,
            "list_requests": self.list_requests,
            "read_request": self.read_request,
            "note_kernel": self.note_kernel,
            "list_kernels": self.list_kernels,
            "status": self.status,
            "activity": guard.look,
            "keep": guard.keep,
            "set_brakes": guard.set_brakes,
            "prepare_to_end": notices.prepare_to_end,
            "hook_ran": notices.hook_ran,
            **more,
        }

    def announce(self, call: Params) -> None:
        """Make the kernel that is about to be started, at once: the next frames may attach to it or ask it something.

        What is wrong with the call is said when it is performed.
        """
        if call.get("method") in ("start_kernel", "restart_kernel") and isinstance(call.get("params"), dict):
            with suppress(TpuError, OSError):
                kernel = self._kernels.get_or_make(call["params"].get("kernel_id"))
                self._abort_what_came_before(kernel, call)
                if call["method"] == "restart_kernel" or not kernel.is_alive:
                    kernel.expect_start()

    def _abort_what_came_before(self, kernel: Kernel, call: Params) -> None:
        number, caller = call["params"].get("abort_until"), _caller(call)
        if type(number) is int and caller is not None:
            kernel.abort_until((caller[0], number))

    async def perform(self, call: Params) -> dict[str, Any]:
        """Do what is asked.

        Raises:
            BadInput: there is no such method, or its parameters make no sense.
            TpuError: it failed.
        """
        name, params = call.get("method"), call.get("params")
        if not isinstance(name, str) or name not in self._table or not isinstance(params, dict):
            raise BadInput(f"The agent has no method {str(name)[:70]!r}.", hint="It may be older than this client.")
        if name in _BY_PEOPLE:
            self._guard.somebody_acts()
        if name in _ONCE:
            params = {**params, "caller": _caller(call)}
        return await self._table[name](params)

    async def start_kernel(self, params: Params) -> dict[str, Any]:
        kernel = self._kernels.get_or_make(params.get("kernel_id"))
        try:
            launch = Launch.from_params(params)
            kernel = await self._kernels.launch(kernel.kernel_id, lambda kernel: kernel.start(launch, params["caller"]))
        except TpuError:
            kernel.expect_no_start()
            await self._kernels.drop_unborn(kernel)
            raise
        return kernel.describe()

    async def restart_kernel(self, params: Params) -> dict[str, Any]:
        try:
            launch = Launch.from_params(params)
        except TpuError:
            self._kernels.get_or_make(params.get("kernel_id")).expect_no_start()
            raise
        kernel = await self._kernels.launch(
            params.get("kernel_id"), lambda kernel: kernel.restart(launch, params["caller"])
        )
        return kernel.describe()

    async def check_restart(self, params: Params) -> dict[str, Any]:
        kernel = self._kernels.get(params.get("kernel_id"))
        kernel.check_restart()
        return kernel.describe()

    async def kill_kernel(self, params: Params) -> dict[str, Any]:
        kernel = self._kernels.get(params.get("kernel_id"))
        number = _signal(params.get("signal", int(signal.SIGKILL)))
        if not kernel.signal_for(params["caller"], number):
            return kernel.describe()
        if number == signal.SIGKILL:
            await kernel.kill()
        else:
            kernel.send_signal(number)
        return kernel.describe()

    async def interrupt(self, params: Params) -> dict[str, Any]:
        kernel = self._kernels.get(params.get("kernel_id"))
        if kernel.signal_for(params["caller"], signal.SIGINT):
            kernel.send_signal(signal.SIGINT)
        return kernel.describe()

    async def forget_kernel(self, params: Params) -> dict[str, Any]:
        await self._kernels.forget(params.get("kernel_id"), str(params.get("owner", "")))
        return {}

    async def kernel_info(self, params: Params) -> dict[str, Any]:
        return self._kernels.get(params.get("kernel_id")).describe()

    async def list_requests(self, params: Params) -> dict[str, Any]:
        kernel = self._kernels.get(params.get("kernel_id"))
        return {
            "requests": kernel.requests.describe(),
            "next_seq": kernel.record.next_seq,
            "execution_state": kernel.execution_state,
        }

    async def read_request(self, params: Params) -> dict[str, Any]:
        kernel = self._kernels.get(params.get("kernel_id"))
        request = kernel.requests.get(params.get("msg_id"))
        if request is None:
            raise BadInput("The worker knows no such request.", exists="It remembers the newest 2,000 of a kernel.")
        head, tail = _size(params, "head_bytes", _HEAD_BYTES), _size(params, "tail_bytes", _TAIL_BYTES)
        excerpt = Excerpt(kernel.record, lambda entry: kernel.requests.is_part(entry, request))
        before = replace(request)
        await excerpt.read(Span(request.first_seq, request.last_seq, request.bytes), head, tail)
        return {
            "entries": b64encode(b"".join(excerpt.entries)).decode(),
            "head_seq": excerpt.head_seq,
            "omitted_bytes": max(0, before.bytes - sum(map(len, excerpt.entries))),
            "omitted_messages": max(0, before.messages - len(excerpt.entries)),
            "last_seq": before.last_seq,
        }

    async def note_kernel(self, params: Params) -> dict[str, Any]:
        kernel, note = self._kernels.get(params.get("kernel_id")), params.get("note")
        if not isinstance(note, dict) or len(json.dumps(note)) > _NOTE_BYTES:
            raise BadInput("A note must be an object of at most 16 KiB.")
        kernel.note(note)
        return kernel.describe()

    async def list_kernels(self, _params: Params) -> dict[str, Any]:
        return {"kernels": self._kernels.describe()}

    async def status(self, _params: Params) -> dict[str, Any]:
        memory, disk = psutil.virtual_memory(), psutil.disk_usage(str(Path.home()))
        return {
            **self.about(),
            "uptime_s": time.time() - self._started_at,
            "load": os.getloadavg(),
            "cpus": os.cpu_count(),
            "memory_bytes": {"total": memory.total, "available": memory.available},
            "disk_bytes": {"total": disk.total, "free": disk.free},
            "agent_rss_bytes": psutil.Process().memory_info().rss,
            "kernels": self._kernels.describe(),
        }

    def about(self) -> dict[str, Any]:
        """Who this agent is; also part of its greeting."""
        return {
            "pid": os.getpid(),
            "version": __version__,
            "code": Path(__file__).parents[2].name,
            "agent_python": platform.python_version(),
            "kernel_python": self._python,
            "socket": self._socket,
            "knows": list(AGENT_KNOWS),
        }


def _caller(call: Params) -> Caller | None:
    """Who calls, as `Calls` has put it there."""
    caller = call.get("caller")
    return caller if isinstance(caller, tuple) else None


def _size(params: Params, name: str, default: int) -> int:
    size = params.get(name, default)
    if not isinstance(size, int) or size < 0:
        raise BadInput(f"{name} must be a number of bytes.")
    return min(size, default)


def _signal(number: Any) -> int:
    if not isinstance(number, int) or number not in signal.valid_signals():
        raise BadInput(f"{str(number)[:20]!r} is not a signal.")
    return number


class Calls:
    """Performs calls, each once: a client repeats after a cut what it has no answer to.

    Answers are remembered for each client apart, so that none makes us forget what another still waits for. What only
    reads is not remembered: it may be performed twice, and its answers are large. What must not be performed again by
    the next agent learns who calls, and is noted with the kernel.
    """

    def __init__(self, methods: Methods) -> None:
        self._methods = methods
        self._answers: OrderedDict[str, OrderedDict[int, Answer]] = OrderedDict()
        self._running: set[Answer] = set()

    def perform(self, client_id: str, number: int, call: Params) -> Answer:
        """The call as a task that ends with the content of the RESULT frame and never fails."""
        if call.get("method") in _ONLY_READ:
            return self._begin(call)
        answers = self._answers.setdefault(client_id, OrderedDict())
        self._answers.move_to_end(client_id)
        if number not in answers:
            call = {**call, "caller": (client_id, number)}
            self._methods.announce(call)
            answers[number] = self._begin(call)
            self._forget_old(answers)
        return answers[number]

    def _begin(self, call: Params) -> Answer:
        task = asyncio.create_task(self._outcome(call))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _outcome(self, call: Params) -> dict[str, Any]:
        try:
            return {"result": await self._methods.perform(call)}
        except TpuError as error:
            return {"error": error.to_json()}
        except Exception as error:  # the agent serves other kernels and must go on
            log.exception("method %s failed", call.get("method"))
            return {"error": _failed(call, error).to_json()}

    def _forget_old(self, answers: OrderedDict[int, Answer]) -> None:
        if len(answers) > _REMEMBERED and next(iter(answers.values())).done():
            answers.popitem(last=False)
        if len(self._answers) > _REMEMBERED_CLIENTS:
            self._answers.popitem(last=False)

    async def close(self) -> None:
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _failed(call: Params, error: Exception) -> TpuError:
    """The worker does not allow it (a full disk, a folder that is gone or not ours), or it is a fault of ours."""
    raw = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and (error.filename or error.errno in _NO_ROOM):
        return EnvironmentFailed(
            f"The agent's files on the worker cannot be used: {error}.",
            hint="Look at that path by `jupyter tpu ssh`: the disk may be full, or something else may be in the way.",
            raw=raw,
        )
    return AgentBroken(f"The agent failed at {call.get('method')!r}.", raw=raw)
