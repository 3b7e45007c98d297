"""Adopt the kernels that an earlier server left on their nodes, and leave this server's kernels running when it stops.

Adopted kernels and their sessions keep their ids, so a reloaded browser page continues as before. The server start
waits for the network only briefly; a kernel whose node can't be reached counts as running until its agent reports a
different state.
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
from jupyter_tpu.kernels.agents.agent_calls import end_registered_kernel
from jupyter_tpu.kernels.provisioner import TPUProvisioner
from jupyter_tpu.kernels.registry.notes import KernelRegistry, RegisteredKernel, RegisteredSession

PATIENCE_S = 3.0
"""How long a server's start may wait for nodes to report their kernels' states, in seconds: the user is waiting."""

_LAST_SEEN = ("last_output_at", "state_since", "started_at")


class Adoption:
    """Takes over kernels that stopped servers left running on nodes. The kernels outlive this server, too.

    The methods must only be called in the server's event loop.

    Args:
        serverapp: the Jupyter server.
        log: a logger.
    """

    def __init__(self, serverapp: Any, log: Any) -> None:
        self._kernels = serverapp.kernel_manager
        self._sessions = serverapp.session_manager
        self.log = log
        self._settling: set[asyncio.Task[None]] = set()

    def claim(self) -> tuple[RegisteredKernel, ...]:
        """Claim the kernels of stopped servers with the same folder, so that no other server can adopt them.

        Raises:
            OSError, TpuError: the folder with the registry can't be read or written.
        """
        return KernelRegistry().claim(os.path.realpath(self._kernels.root_dir))

    async def adopt(self, notes: tuple[RegisteredKernel, ...]) -> None:
        """Adopt kernels and wait up to `PATIENCE_S` for their nodes; check slower nodes in the background."""
        await asyncio.gather(*(self._adopt(note) for note in notes if not note.is_ended))
        if self._settling:
            await asyncio.wait(self._settling, timeout=PATIENCE_S)
        # shut down kernels that the user had shut down while their node was unreachable
        for note in notes:
            if note.is_ended:
                self._in_background(self._end(note))

    def follow_sessions(self) -> None:
        """Record sessions in the registry when they are created and changed.

        SessionManager has no hook for this, so two of its methods are wrapped. A session is recorded before the front
        end gets it, so that it can be restored even if the server is killed immediately afterwards.
        """
        # patch only this server's instance, so that another server in the same process is not changed
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
        """Stop checking kernels in the background."""
        for task in self._settling:
            task.cancel()
        await asyncio.gather(*self._settling, return_exceptions=True)

    async def leave(self) -> None:
        """Keep the kernels on nodes running. Jupyter Server shuts down kernels without a registry entry."""
        await self.close()
        left = [kernel_id for kernel_id in self._kernels.list_kernel_ids() if await self._can_be_left(kernel_id)]
        await asyncio.gather(*map(self._leave, left))
        if left:
            self.log.warning(
                "%s kernel%s running on Cloud TPU nodes: the next server in this folder restores them; `jupyter tpu "
                "kernels` lists them, and the nodes are billed until they are stopped.",
                len(left),
                " keeps" if len(left) == 1 else "s keep",
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
                "The kernel %s on %s was not restored: there is no kernelspec %s. `jupyter tpu kernelspec` writes it "
                "while the node is READY; then restart the server.",
                note.kernel_id,
                note.node,
                note.kernel_name,
            )
        except Exception:  # one kernel must not prevent the others or the server from starting
            self.log.exception("The kernel %s on %s was not restored.", note.kernel_id, note.node)
        else:
            self._in_background(self._settle(note))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _end(self, note: RegisteredKernel) -> None:
        try:
            await end_registered_kernel(note)
        except TpuError as error:
            self.log.warning("%s: the kernel %s was shut down but may still run. %s", note.node, note.kernel_id, error)

    async def _start(self, note: RegisteredKernel) -> None:
        """Make Jupyter start the kernel.

        No new process starts: jupyter_tpu's provisioner finds the registry entry and connects to the running kernel.
        """
        self._kernels.kernel_spec_manager.get_kernel_spec(note.kernel_name)
        options: dict[str, Any] = {"env": self._env(note)}
        if note.extra_arguments:
            options["extra_arguments"] = list(note.extra_arguments)
        await ensure_async(
            self._kernels.start_kernel(kernel_id=note.kernel_id, kernel_name=note.kernel_name, **options)
        )
        manager = self._kernels.get_kernel(note.kernel_id)
        if manager.execution_state == "starting":  # otherwise front ends would wait for a start that has long finished
            manager.execution_state = "unknown"

    def _env(self, note: RegisteredKernel) -> dict[str, str]:
        """Return the environment variables for a restart of the kernel, as Jupyter sets them for its first session."""
        for session in note.sessions:
            if session.path is not None:
                return dict(self._sessions.get_kernel_env(session.path, session.name))
        return dict(os.environ)

    async def _settle(self, note: RegisteredKernel) -> None:
        """Get the kernel's state from its agent and show it in Jupyter Server's list of kernels."""
        manager = self._kernels.get_kernel(note.kernel_id)
        no_culling = asyncio.create_task(self._keep_from_culling(manager))
        try:
            info = await manager.provisioner.learn_state()
            end = manager.provisioner.end
        except TpuError:  # the kernel was shut down in the meantime
            return
        finally:
            no_culling.cancel()
        if end:
            manager.execution_state, manager.reason = "dead", end
            self.log.warning("%s: the kernel %s no longer runs. %s", note.node, note.kernel_id, end)
        else:
            _show(manager, info)
            self.log.info("%s: the kernel %s is restored", note.node, note.kernel_id)

    async def _keep_from_culling(self, manager: Any) -> None:
        """Update the kernel's last activity until cancelled, so that Jupyter doesn't cull a kernel that may be busy."""
        limit_s = self._kernels.cull_idle_timeout
        while limit_s > 0:  # 0 or less turns Jupyter's culler off
            manager.last_activity = datetime.now(UTC)
            await asyncio.sleep(limit_s / 3)

    async def _note(self, model: Mapping[str, Any]) -> None:
        provisioner = self._provisioner(model["kernel"]["id"])
        if provisioner:
            session = RegisteredSession(
                session_id=model["id"], path=model["path"], name=model["name"], type=model["type"]
            )
            await provisioner.change_note(lambda note: note.with_session(session))

    async def _can_be_left(self, kernel_id: str) -> bool:
        provisioner = self._provisioner(kernel_id)
        return provisioner is not None and await provisioner.can_be_left()

    async def _leave(self, kernel_id: str) -> None:
        manager, provisioner = self._kernels.get_kernel(kernel_id), self._provisioner(kernel_id)
        self._kernels.stop_watching_activity(kernel_id)
        self._kernels.stop_buffering(kernel_id)
        manager.stop_restarter()
        # remove the kernel from Jupyter's list, because Jupyter shuts down all kernels on that list
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
    """Show the state and the last activity that the agent has reported, unless the record contains a newer state."""
    if manager.execution_state == "unknown":
        manager.execution_state = str(info.get("execution_state", "unknown"))
    seen = [float(info[name]) for name in _LAST_SEEN if info.get(name)]
    if seen:
        # use an age instead of a time: if the worker's clock is wrong, the local culler would see a wrong idle time
        age_s = max(0.0, float(info.get("now") or time.time()) - max(seen))
        manager.last_activity = datetime.fromtimestamp(time.time() - age_s, UTC)
