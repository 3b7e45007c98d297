"""Start, restart and shut down kernels through Jupyter Server's own routes, one operation at a time per kernel.

In Jupyter Server, operations overlap if two pages or a double click request them. On a node, this may leave a running
kernel that no list shows, for example if the kernel was shut down during its restart and the restart continued. Jupyter
Server's restart also interrupts the running cell before checking whether a restart is possible, and hides the reason
for a failure. These handlers check first and report the reason. If a kernel does not start, Jupyter Server responds
with status 500; these handlers respond with the status and the text of jupyter_tpu's error.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast
from weakref import WeakValueDictionary

from jupyter_client.jsonutil import json_default
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.services.kernels.handlers import KernelActionHandler, KernelHandler, MainKernelHandler
from jupyter_server.services.sessions.handlers import SessionHandler, SessionRootHandler
from jupyter_server.utils import ensure_async
from tornado import web
from tornado.web import RequestHandler

from jupyter_tpu.errors import TpuError
from jupyter_tpu.kernels.provisioner import TPUProvisioner

_SETTING = "jupyter_tpu_kernel_changes"


class _Changes:
    """The restarts and shutdowns of kernels that are in progress on a server."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._restarts: dict[str, asyncio.Task[None]] = {}

    @classmethod
    def of(cls, handler: RequestHandler) -> _Changes:
        """Return the only instance of the handler's server; create it if necessary."""
        changes: _Changes = handler.settings.setdefault(_SETTING, cls())
        return changes

    def turn(self, kernel_id: str) -> asyncio.Lock:
        """Return the lock for changes of this kernel."""
        return self._locks.setdefault(kernel_id, asyncio.Lock())

    async def restart(self, kernel_id: str, kernels: Any) -> None:
        """Restart the kernel, or wait for a restart in progress; a closed page does not cancel it.

        Raises:
            web.HTTPError: the kernel no longer exists or can't be restarted.
        """
        task = self._restarts.get(kernel_id)
        if task is None:
            task = self._restarts[kernel_id] = asyncio.create_task(self._in_turn(kernel_id, kernels))
            task.add_done_callback(lambda _: self._restarts.pop(kernel_id))
        await asyncio.shield(task)

    async def _in_turn(self, kernel_id: str, kernels: Any) -> None:
        async with self.turn(kernel_id):
            await _restarted_by_jupyter(kernels, kernel_id)
            if kernel_id not in kernels:  # the kernel was shut down in the meantime; use Jupyter Server's error text
                raise web.HTTPError(404, f"Kernel does not exist: {kernel_id}")
            try:
                async with kernels.get_kernel(kernel_id).provisioner.restarting():
                    await ensure_async(kernels.restart_kernel(kernel_id))
            except TpuError as error:
                raise web.HTTPError(error.status) from error
            except Exception as error:
                raise web.HTTPError(500, "Exception restarting kernel") from error
            finally:
                _let_end(kernels, kernel_id)


def _is_on_node(kernels: Any, kernel_id: str) -> bool:
    return kernel_id in kernels and isinstance(kernels.get_kernel(kernel_id).provisioner, TPUProvisioner)


async def _restarted_by_jupyter(kernels: Any, kernel_id: str) -> None:
    """Wait while Jupyter restarts a dead kernel on a node; until it has finished, Jupyter rejects other changes."""
    while _is_on_node(kernels, kernel_id) and not (ready := kernels.get_kernel(kernel_id).ready).done():
        await asyncio.wait([ready])


def _let_end(kernels: Any, kernel_id: str) -> None:
    """Clear the failure of an earlier restart or shutdown, so that Jupyter shuts the kernel down.

    Jupyter removes a kernel with a failure from its list without shutting it down, as if it had never started. But a
    kernel on a node may still be running and using the TPU.
    """
    if not _is_on_node(kernels, kernel_id):
        return
    manager = kernels.get_kernel(kernel_id)
    has_failed = manager.ready.done() and not manager.ready.cancelled() and manager.ready.exception() is not None
    if has_failed and manager.has_kernel:
        # no public method resets this future, which determines whether Jupyter shuts the kernel down
        manager._ready = asyncio.get_running_loop().create_future()
        manager._ready.set_result(None)


class _WithReason(APIHandler):
    """Base class of handlers that report a `TpuError` if it is the reason why a kernel did not start."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Write a `TpuError` with its own status, even if Jupyter Server has wrapped it.

        Jupyter Server writes all other errors.
        """
        raised = kwargs.get("exc_info", (None, None))[1]
        error = raised if isinstance(raised, TpuError) else getattr(raised, "__cause__", None)
        if not isinstance(error, TpuError):
            super().write_error(status_code, **kwargs)
            return
        self.set_header("Content-Type", "application/json")
        self.set_header("Jupyter-TPU-Error", error.code)  # JupyterLab ignores the body, and proxies also return 502
        self.set_status(error.status)
        body = {"message": self._message(error), "reason": error.message, "error": error.to_json()}
        self.finish(json.dumps(body))

    def _message(self, error: TpuError) -> str:
        return str(error)


class KernelStartHandler(_WithReason, MainKernelHandler):
    """``api/kernels``: ``POST`` reports why a kernel on a node did not start."""


class SessionStartHandler(_WithReason, SessionRootHandler):
    """``api/sessions``: ``POST`` reports why a kernel on a node did not start."""


class RestartHandler(_WithReason, KernelActionHandler):
    """``POST api/kernels/{id}/restart``: for kernels on nodes, run one restart at a time and report why it failed."""

    @web.authenticated
    @authorized
    async def post(self, kernel_id: str) -> None:
        """Restart the kernel; if it is not on a node, call Jupyter Server's own handler."""
        kernels: Any = self.kernel_manager
        if not _is_on_node(kernels, kernel_id):
            await ensure_async(super().post(kernel_id, "restart"))
            return
        await _Changes.of(self).restart(kernel_id, kernels)
        model = await ensure_async(kernels.kernel_model(kernel_id))
        self.finish(json.dumps(model, default=json_default))

    def _message(self, error: TpuError) -> str:
        return f"The kernel was not restarted. {error}"


class ShutdownHandler(KernelHandler):
    """``DELETE api/kernels/{id}``: wait for a restart in progress, then shut the kernel down."""

    @web.authenticated
    @authorized
    async def delete(self, kernel_id: str) -> None:
        """Wait until restarts and shutdowns in progress have finished, then shut the kernel down."""
        async with _Changes.of(self).turn(kernel_id):
            await _restarted_by_jupyter(self.kernel_manager, kernel_id)
            _let_end(self.kernel_manager, kernel_id)
            await ensure_async(super().delete(kernel_id))


class SessionChangeHandler(_WithReason, SessionHandler):
    """``api/sessions/{id}``: ``PATCH`` and ``DELETE`` can shut a kernel down, so both wait for a running restart."""

    @web.authenticated
    @authorized
    async def patch(self, session_id: str) -> None:
        """Change the session; if this changes its kernel, wait until the kernel's changes in progress have finished."""
        body = self.get_json_body()
        if not isinstance(body, dict) or "kernel" not in body:  # renaming a notebook doesn't have to wait
            await ensure_async(super().patch(session_id))
            return
        session = await cast(Any, self.session_manager).get_session(session_id=session_id)
        async with _Changes.of(self).turn(session["kernel"]["id"]):
            await _restarted_by_jupyter(self.kernel_manager, session["kernel"]["id"])
            _let_end(self.kernel_manager, session["kernel"]["id"])
            await ensure_async(super().patch(session_id))

    @web.authenticated
    @authorized
    async def delete(self, session_id: str) -> None:
        """Wait until restarts and shutdowns of the kernel have finished, then delete the session and its kernel."""
        sessions: Any = self.session_manager
        try:
            session = await sessions.get_session(session_id=session_id)
        except KeyError as error:
            raise web.HTTPError(410, "Kernel deleted before session") from error
        async with _Changes.of(self).turn(session["kernel"]["id"]):
            await _restarted_by_jupyter(self.kernel_manager, session["kernel"]["id"])
            _let_end(self.kernel_manager, session["kernel"]["id"])
            await ensure_async(super().delete(session_id))


_ID = r"\w+-\w+-\w+-\w+-\w+"
KERNEL_CHANGE_ROUTES = (
    (r"/api/kernels", KernelStartHandler),
    (r"/api/sessions", SessionStartHandler),
    (rf"/api/kernels/(?P<kernel_id>{_ID})/restart", RestartHandler),
    (rf"/api/kernels/(?P<kernel_id>{_ID})", ShutdownHandler),
    (rf"/api/sessions/(?P<session_id>{_ID})", SessionChangeHandler),
)
