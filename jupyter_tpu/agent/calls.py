"""The RPC methods for clients, with a result cache, so that a retried call isn't performed twice.

Start with `Methods` (the table of methods) and `Calls` (which runs each call once). This module must not depend on how
frames are transported, which is the task of `session`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
import signal
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
from jupyter_tpu.agent.kernels.launch_request import Launch
from jupyter_tpu.agent.paths import Home, disk_full
from jupyter_tpu.agent.preemption.notices import Notices
from jupyter_tpu.agent.recording.excerpt import Excerpt, Span
from jupyter_tpu.errors import AgentBroken, BadInput, EnvironmentFailed, TpuError
from jupyter_tpu.wire.hello import AGENT_KNOWS
from jupyter_tpu.worker_clock import boot_clock, booted_at

log = logging.getLogger(__name__)

Params = Mapping[str, Any]
Method = Callable[[Params], Awaitable[dict[str, Any]]]
Answer: TypeAlias = "asyncio.Task[dict[str, Any]]"

# Number of results to keep per client. A client repeats only calls that have no result yet. Usually only a few are
# pending, so this leaves a safety margin.
_REMEMBERED = 100
# Number of clients whose results are kept. Every server, terminal and notebook that ever connected is a client, so this
# limit bounds the agent's memory.
_REMEMBERED_CLIENTS = 1000
_ONLY_READ = (
    "activity",
    "check_restart",
    "environments",
    "examine",
    "kernel_info",
    "list_kernels",
    "list_requests",
    "list_terminals",
    "metrics",
    "read_request",
    "status",
    "told",
    "who",
)
_ONCE = ("start_kernel", "restart_kernel", "kill_kernel", "interrupt")
_BY_PEOPLE = ("start_kernel", "restart_kernel", "interrupt", "free", "start_terminal")
# A note contains only a few paths and names. It must stay small, because it is rewritten on every change of the
# kernel's state.
_NOTE_BYTES = 16 * 1024
# Sizes of an excerpt's head and tail. Each may exceed its size by one entry (at most 4 MiB, see `excerpt`). Encoded as
# base64, both together must fit in a RESULT frame.
_HEAD_BYTES = 1024 * 1024
_TAIL_BYTES = 2 * 1024 * 1024


class Methods:
    """The table of RPC methods; every method takes and returns a JSON object.

    Args:
        python: the Python that kernels run on by default.
        socket: path of the agent's own socket.
        more: methods of other parts of the agent, by name.
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
        self._started_at = boot_clock()
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
            # These names are part of the protocol, which older clients use; the methods' own names may change.
            "activity": guard.report_activity,
            "keep": guard.extend,
            "set_brakes": guard.set_rules,
            "prepare_to_end": notices.prepare_to_end,
            "hook_ran": notices.hook_ran,
            **more,
        }

    def announce(self, call: Params) -> None:
        """Create the kernel of a start call immediately, because the client's next frames may already refer to it.

        An invalid call is ignored here and fails when it is performed.
        """
        if call.get("method") in ("start_kernel", "restart_kernel") and isinstance(call.get("params"), dict):
            with suppress(TpuError, OSError):
                kernel = self._kernels.get_or_make(call["params"].get("kernel_id"))
                self._abort_what_came_before(kernel, call)
                # Starting a running kernel does nothing, so requests to the kernel must not wait for a new process.
                if call["method"] == "restart_kernel" or not kernel.is_alive:
                    kernel.expect_start()

    def _abort_what_came_before(self, kernel: Kernel, call: Params) -> None:
        number, caller = call["params"].get("abort_until"), _caller(call)
        if type(number) is int and caller is not None:
            kernel.abort_until((caller[0], number))

    async def perform(self, call: Params) -> dict[str, Any]:
        """Run the method specified by a call.

        Raises:
            BadInput: there is no such method, or its parameters are not valid.
            TpuError: the method failed.
        """
        name, params = call.get("method"), call.get("params")
        if not isinstance(name, str) or name not in self._table or not isinstance(params, dict):
            raise BadInput(
                f"The agent has no method named {str(name)[:70]}.", hint="The agent may be older than this client."
            )
        if name in _BY_PEOPLE:
            self._guard.note_human_act()
        # These methods store the caller, so that even a restarted agent recognizes a repeated call.
        if name in _ONCE:
            params = {**params, "caller": _caller(call)}
        return await self._table[name](params)

    async def start_kernel(self, params: Params) -> dict[str, Any]:
        """Start a kernel's process unless one is running (see `Launch`); drop the kernel if the start fails."""
        kernel = self._kernels.get_or_make(params.get("kernel_id"))
        try:
            launch = Launch.from_params(params)
            kernel = await self._kernels.launch(kernel.kernel_id, lambda kernel: kernel.start(launch, params["caller"]))
        except TpuError:
            kernel.expect_no_start()
            await self._kernels.drop_never_started(kernel)
            raise
        return kernel.describe()

    async def restart_kernel(self, params: Params) -> dict[str, Any]:
        """Shut down a kernel's process and start a new one; see `Launch`."""
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
        """Check that a restart would succeed. Clients call this before they shut the process down."""
        kernel = self._kernels.get(params.get("kernel_id"))
        kernel.check_restart()
        return kernel.describe()

    async def kill_kernel(self, params: Params) -> dict[str, Any]:
        """Send ``signal`` to a kernel; for SIGKILL (the default), return once the kernel's exit is recorded."""
        kernel = self._kernels.get(params.get("kernel_id"))
        number = _signal(params.get("signal", int(signal.SIGKILL)))
        if not kernel.signal_for(params["caller"], number):
            return kernel.describe()
        # Respond to SIGKILL only after the process's exit has been recorded, so that the next call can start a new
        # process.
        if number == signal.SIGKILL:
            await kernel.kill()
        else:
            kernel.send_signal(number)
        return kernel.describe()

    async def interrupt(self, params: Params) -> dict[str, Any]:
        """Interrupt a kernel with SIGINT."""
        kernel = self._kernels.get(params.get("kernel_id"))
        if kernel.signal_for(params["caller"], signal.SIGINT):
            kernel.send_signal(signal.SIGINT)
        return kernel.describe()

    async def forget_kernel(self, params: Params) -> dict[str, Any]:
        """Shut down a kernel and delete its record, unless it no longer belongs to ``owner``."""
        await self._kernels.forget(params.get("kernel_id"), str(params.get("owner", "")))
        return {}

    async def kernel_info(self, params: Params) -> dict[str, Any]:
        """Return the state of one kernel; see `Kernel.describe`."""
        return self._kernels.get(params.get("kernel_id")).describe()

    async def list_requests(self, params: Params) -> dict[str, Any]:
        """Return a kernel's execute requests (see `IndexedRequest`), its state and the number of its next message."""
        kernel = self._kernels.get(params.get("kernel_id"))
        return {
            "requests": kernel.requests.describe(booted_at()),
            "next_seq": kernel.record.next_seq,
            "execution_state": kernel.execution_state,
        }

    async def read_request(self, params: Params) -> dict[str, Any]:
        """Return a request's recorded messages: all, or only the first ``head_bytes`` and the last ``tail_bytes``.

        ``head_seq`` is the last entry of the head; ``omitted_bytes`` and ``omitted_messages`` give the size of the gap.
        """
        kernel = self._kernels.get(params.get("kernel_id"))
        request = kernel.requests.get(params.get("msg_id"))
        if request is None:
            raise BadInput(
                "The worker has no record of this request.",
                exists="The worker keeps the newest 2,000 requests of each kernel.",
            )
        head, tail = _size(params, "head_bytes", _HEAD_BYTES), _size(params, "tail_bytes", _TAIL_BYTES)
        excerpt = Excerpt(kernel.record, lambda entry: kernel.requests.is_part(entry, request))
        before = replace(request)  # a copy, because the request may change while the record is read
        await excerpt.read(Span(request.first_seq, request.last_seq, request.bytes), head, tail)
        return {
            "entries": b64encode(b"".join(excerpt.entries)).decode(),
            "head_seq": excerpt.head_seq,
            "omitted_bytes": max(0, before.bytes - sum(map(len, excerpt.entries))),
            "omitted_messages": max(0, before.messages - len(excerpt.entries)),
            "last_seq": before.last_seq,
        }

    async def note_kernel(self, params: Params) -> dict[str, Any]:
        """Store a client's ``note`` about a kernel; clients that connect later can read it."""
        kernel, note = self._kernels.get(params.get("kernel_id")), params.get("note")
        if not isinstance(note, dict) or len(json.dumps(note)) > _NOTE_BYTES:
            raise BadInput("A note must be an object of at most 16 KiB.")
        kernel.note(note)
        return kernel.describe()

    async def list_kernels(self, _params: Params) -> dict[str, Any]:
        """Return the state of all kernels; see `Kernel.describe`."""
        return {"kernels": self._kernels.describe()}

    async def status(self, _params: Params) -> dict[str, Any]:
        """Return the state of the worker: load, memory, disk, the agent itself and its kernels."""
        memory, disk = psutil.virtual_memory(), psutil.disk_usage(str(Path.home()))
        return {
            **self.about(),
            "uptime_s": boot_clock() - self._started_at,
            "load": os.getloadavg(),
            "cpus": os.cpu_count(),
            "memory_bytes": {"total": memory.total, "available": memory.available},
            "disk_bytes": {"total": disk.total, "free": disk.free},
            "agent_rss_bytes": psutil.Process().memory_info().rss,
            "kernels": self._kernels.describe(),
        }

    def about(self) -> dict[str, Any]:
        """Return this agent's version, pid and paths, which its HELLO frame also contains."""
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
    """Return the caller added by `Calls`, or None for a read-only call."""
    caller = call.get("caller")
    return caller if isinstance(caller, tuple) else None


def _size(params: Params, name: str, default: int) -> int:
    size = params.get(name, default)
    if not isinstance(size, int) or size < 0:
        raise BadInput(f"The field '{name}' must be a number of bytes.")
    return min(size, default)


def _signal(number: Any) -> int:
    if not isinstance(number, int) or number not in signal.valid_signals():
        raise BadInput(f"{str(number)[:20]!r} is not a signal.")
    return number


class Calls:
    """The clients' calls, each performed once, even if a client reconnects and repeats a call.

    Results are cached per client, so that one client can't evict a result that another client still needs. Read-only
    calls are not cached, because running them twice does no harm and their results are large. Methods that even the
    next agent must not repeat receive the client's id and the call's number, and store both with the kernel.
    """

    def __init__(self, methods: Methods) -> None:
        self._methods = methods
        self._answers: OrderedDict[str, OrderedDict[int, Answer]] = OrderedDict()
        self._running: set[Answer] = set()

    def perform(self, client_id: str, number: int, call: Params) -> Answer:
        """Return a task that performs the call and never raises; its result is the content of the RESULT frame."""
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
        except Exception as error:  # the agent must keep serving other kernels
            log.exception("method %s failed", call.get("method"))
            return {"error": _failed(call, error).to_json()}

    def _forget_old(self, answers: OrderedDict[int, Answer]) -> None:
        # Keep a call that is still running: if the client repeated it, it would otherwise run twice.
        if len(answers) > _REMEMBERED and next(iter(answers.values())).done():
            answers.popitem(last=False)
        if len(self._answers) > _REMEMBERED_CLIENTS:
            at_rest = (client for client, calls in self._answers.items() if all(call.done() for call in calls.values()))
            if (oldest := next(at_rest, None)) is not None:
                del self._answers[oldest]

    async def close(self) -> None:
        """Cancel running calls."""
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _failed(call: Params, error: Exception) -> TpuError:
    """Return the error for the client: a worker error, such as a full disk, or else an agent error."""
    raw = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and (full := disk_full(Home.of_user().root, error)):
        return full
    if isinstance(error, OSError) and error.filename:
        return EnvironmentFailed(
            f"The agent can't use its files on the worker: {error}.",
            hint="Check that path with `jupyter tpu ssh`: another file may be in the way.",
            raw=raw,
        )
    return AgentBroken(f"The agent failed at {call.get('method')!r}.", raw=raw)
