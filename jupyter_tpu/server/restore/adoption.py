"""Gives a starting server the kernels that an earlier one left on their nodes, and lets go of its own when it stops.

A kernel that is given back keeps its id, and its sessions keep theirs: a browser that is reloaded goes on as if nothing
had happened. No network is waited for longer than a moment; a kernel whose node cannot be reached counts as alive until
somebody who knows says otherwise.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any

from jupyter_client.kernelspec import NoSuchKernel
from jupyter_core.utils import ensure_async

from jupyter_tpu.errors import TpuError
from jupyter_tpu.kernels.agents.requests import end_noted_kernel
from jupyter_tpu.kernels.provisioner import TPUProvisioner
from jupyter_tpu.kernels.registry.notes import KernelRegistry, NotedSession, RegisteredKernel

PATIENCE_S = 3.0
"""How long a server's start may wait for nodes to say how their kernels are."""

_LAST_SEEN = ("last_output_at", "state_since", "started_at")


class Adoption:
    """The kernels on nodes that a server has, from its start to its end. Used from the server's loop.

    Args:
        serverapp: the Jupyter server.
        log: hears what became of kernels.
    """

    def __init__(self, serverapp: Any, log: Any) -> None:
        self._kernels = serverapp.kernel_manager
        self._sessions = serverapp.session_manager
        self.log = log
        self._settling: set[asyncio.Task[None]] = set()

    def claim(self) -> tuple[RegisteredKernel, ...]:
        """The kernels of servers of this folder that have ended; from now on no other server takes them.

        Raises:
            OSError, TpuError: our folder cannot be read or written.
        """
        return KernelRegistry().claim(os.path.realpath(self._kernels.root_dir))

    async def adopt(self, notes: tuple[RegisteredKernel, ...]) -> None:
        """Take the kernels of `notes`, and wait a moment for their nodes; the rest is learned in the background."""
        await asyncio.gather(*(self._adopt(note) for note in notes if not note.is_ended))
        if self._settling:
            await asyncio.wait(self._settling, timeout=PATIENCE_S)
        for note in notes:
            if note.is_ended:
                self._in_background(self._end(note))

    def follow_sessions(self) -> None:
        """Note sessions as they come and change. SessionManager tells nobody of it, so two of its methods are wrapped.

        What they return to a front end has been noted by then.
        """
        save, update = self._sessions.save_session, self._sessions.update_session

        async def save_session(session_id: str, *args: Any, **kwargs: Any) -> Any:
            model = await ensure_async(save(session_id, *args, **kwargs))
            await self._note(model)
            return model

        async def update_session(session_id: str, **changes: Any) -> None:
            await ensure_async(update(session_id, **changes))
            await self._note(await ensure_async(self._sessions.get_session(session_id=session_id)))

        self._sessions.save_session, self._sessions.update_session = save_session, update_session

    async def close(self) -> None:
        """Stop to learn."""
        for task in self._settling:
            task.cancel()
        await asyncio.gather(*self._settling, return_exceptions=True)

    async def leave(self) -> None:
        """Let go of the kernels on nodes, which go on; those that no note leads back to end with the server."""
        await self.close()
        left = [kernel_id for kernel_id in self._kernels.list_kernel_ids() if self._can_be_left(kernel_id)]
        await asyncio.gather(*map(self._leave, left))
        if left:
            self.log.warning(
                "%s kernel%s on on Cloud TPU nodes: the next server in this folder gives them back; `jupyter tpu "
                "kernels` shows them, and the nodes are billed until they are stopped.",
                len(left),
                " goes" if len(left) == 1 else "s go",
            )

    async def _adopt(self, note: RegisteredKernel) -> None:
        try:
            await self._start(note)
            for session in note.sessions:
                await ensure_async(
                    self._sessions.save_session(
                        session.session_id,
                        path=session.path,
                        name=session.name,
                        type=session.type,
                        kernel_id=note.kernel_id,
                    )
                )
        except NoSuchKernel:
            self.log.warning(
                "The kernel %s on %s is not given back: there is no kernelspec %s. `jupyter tpu kernelspec` writes it "
                "while the node is READY; then restart the server.",
                note.kernel_id,
                note.node,
                note.kernel_name,
            )
        except Exception:  # the others, and the server, have to start
            self.log.exception("The kernel %s on %s is not given back.", note.kernel_id, note.node)
        else:
            self._in_background(self._settle(note))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _end(self, note: RegisteredKernel) -> None:
        try:
            await end_noted_kernel(note)
        except TpuError as error:
            self.log.warning("%s: the kernel %s, which was ended, may run on. %s", note.node, note.kernel_id, error)

    async def _start(self, note: RegisteredKernel) -> None:
        """To Jupyter it is a start; our provisioner finds its note."""
        self._kernels.kernel_spec_manager.get_kernel_spec(note.kernel_name)
        options: dict[str, Any] = {"env": self._env(note)}
        if note.extra_arguments:
            options["extra_arguments"] = list(note.extra_arguments)
        await ensure_async(
            self._kernels.start_kernel(kernel_id=note.kernel_id, kernel_name=note.kernel_name, **options)
        )
        manager = self._kernels.get_kernel(note.kernel_id)
        if manager.execution_state == "starting":
            manager.execution_state = "unknown"

    def _env(self, note: RegisteredKernel) -> dict[str, str]:
        """What Jupyter sets for the first session's kernel; for restarts."""
        for session in note.sessions:
            if session.path is not None:
                return dict(self._sessions.get_kernel_env(session.path, session.name))
        return dict(os.environ)

    async def _settle(self, note: RegisteredKernel) -> None:
        """Learn how the kernel is and have Jupyter show it."""
        manager = self._kernels.get_kernel(note.kernel_id)
        guard = asyncio.create_task(self._keep_from_culling(manager))
        try:
            info = await manager.provisioner.learn_state()
            end = manager.provisioner.end
        except TpuError:  # it was shut down meanwhile
            return
        finally:
            guard.cancel()
        if end:
            manager.execution_state, manager.reason = "dead", end
            self.log.warning("%s: the kernel %s is not alive any more. %s", note.node, note.kernel_id, end)
        else:
            _show(manager, info)
            self.log.info("%s: the kernel %s is given back", note.node, note.kernel_id)

    async def _keep_from_culling(self, manager: Any) -> None:
        """A kernel of which nothing is known may be at work: Jupyter's culler must not take it for idle."""
        limit_s = self._kernels.cull_idle_timeout
        while limit_s > 0:
            manager.last_activity = datetime.now(UTC)
            await asyncio.sleep(limit_s / 3)

    async def _note(self, model: Mapping[str, Any]) -> None:
        provisioner = self._provisioner(model["kernel"]["id"])
        if provisioner:
            session = NotedSession(session_id=model["id"], path=model["path"], name=model["name"], type=model["type"])
            await provisioner.change_note(lambda note: note.with_session(session))

    def _can_be_left(self, kernel_id: str) -> bool:
        provisioner = self._provisioner(kernel_id)
        return provisioner is not None and provisioner.note is not None

    async def _leave(self, kernel_id: str) -> None:
        manager, provisioner = self._kernels.get_kernel(kernel_id), self._provisioner(kernel_id)
        self._kernels.stop_watching_activity(kernel_id)
        self._kernels.stop_buffering(kernel_id)
        manager.stop_restarter()
        self._kernels.remove_kernel(kernel_id)
        manager.cleanup_connection_file()
        if provisioner:
            await provisioner.leave()

    def _provisioner(self, kernel_id: str) -> TPUProvisioner | None:
        if kernel_id not in self._kernels:
            return None
        provisioner = getattr(self._kernels.get_kernel(kernel_id), "provisioner", None)
        return provisioner if isinstance(provisioner, TPUProvisioner) else None


def _show(manager: Any, info: Mapping[str, Any]) -> None:
    """What the agent knows of an idle or busy kernel. A state that was heard since is newer than this one."""
    if manager.execution_state == "unknown":
        manager.execution_state = str(info.get("execution_state", "unknown"))
    seen = [float(info[name]) for name in _LAST_SEEN if info.get(name)]
    if seen:
        # by this machine's clock, or a culler here would take a wrong clock of the worker's for idleness
        age_s = max(0.0, float(info.get("now") or time.time()) - max(seen))
        manager.last_activity = datetime.fromtimestamp(time.time() - age_s, UTC)
