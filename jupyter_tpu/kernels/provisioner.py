"""The kernel provisioner ``tpu``, which a KernelManager uses if the kernelspec names a node.

See jupyter_client's documentation for when it calls these methods; the docstrings here only add details that are easy
to overlook. All work runs in the link thread; the methods only wait for it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, cast
from weakref import WeakValueDictionary

import zmq
from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from traitlets import Enum, Integer, List, Unicode, default

from jupyter_tpu.cloud.settings import settings_from_environment
from jupyter_tpu.errors import EnvironmentFailed, KernelFailed, Text, TpuError, WrongState
from jupyter_tpu.i18n import LANGUAGE_VARIABLE
from jupyter_tpu.journal.saved_choices import apply_saved_choices
from jupyter_tpu.kernels.connections.pool import LinkStatus, link_thread
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.kernels.environments.environment import KernelEnvironment
from jupyter_tpu.kernels.kernel_host import KernelHost
from jupyter_tpu.kernels.launch import LANGUAGE_SETTING, Launch, forwarded_names, kernel_env
from jupyter_tpu.kernels.messages.execution_log import ExecutionLog, LostRuns, runs_folder
from jupyter_tpu.kernels.messages.local_ports import TcpAddresses, default_addresses
from jupyter_tpu.kernels.messages.loop_bridge import Deliver, LoopBridge
from jupyter_tpu.kernels.messages.zmq_bridge import Secrets
from jupyter_tpu.kernels.node_recovery import RecoveryProgress, recovery_progress, recovery_view
from jupyter_tpu.kernels.progress import LinkReport, ProgressReport, keep_tracebacks_out
from jupyter_tpu.kernels.registry.exit_status import exit_text
from jupyter_tpu.kernels.registry.notes import KernelRegistry, RegisteredKernel, this_process
from jupyter_tpu.kernels.registry.registry_sync import RegistrySync
from jupyter_tpu.models import NodeName
from jupyter_tpu.node_end import NodeEnd
from jupyter_tpu.ssh import import_ahead

# How long a shutdown waits for the worker. After that, the link thread finishes in the background.
_LAST_WORK_S = 6
# How long to wait for the reply to a shutdown while the link is disconnected, because the kernel can't reply then.
_WAIT_WHILE_CUT_S = 1.0
# Time limit of the check before a restart. After it, restart without the check: a slow agent must not block the
# restart.
_CHECK_S = 5.0
_MEANWHILE_S = 1.0  # the agent's refusal may arrive before `shutdown_requested` is called for the same message
_PLACE = ("node", "endpoint", "worker_id", "workers")


class TPUProvisioner(KernelProvisionerBase):
    """The provisioner of a kernel on a worker of a Cloud TPU node."""

    node = Unicode(help="Full name of the node: projects/PROJECT/locations/ZONE/nodes/NODE.").tag(config=True)
    endpoint = Unicode(
        help="HOST:PORT of the Cloud TPU API: empty for Google Cloud, or the address of an emulator. Default: "
        "$JUPYTER_TPU_ENDPOINT."
    ).tag(config=True)
    worker_id = Integer(0, min=0, help="Number of the worker, counted from 0.").tag(config=True)
    workers = Integer(
        1,
        min=1,
        help="1 to run the kernel on `worker_id` only; otherwise the number of the node's workers, which run it"
        " together. If the node was recreated with another number of workers, the kernel runs on all of them.",
    ).tag(config=True)
    python = Unicode(help="Python on the worker that runs the kernels; empty for the worker's own Python.").tag(
        config=True
    )
    environment = Unicode(
        help="Framework (jax, torch_xla, torch_tpu or tf). Kernels run in its environment on the worker, which"
        " is created if it is missing. Empty to use the trait `python`."
    ).tag(config=True)
    cwd = Unicode(help="Folder on the worker where kernels start; empty for the home folder.").tag(config=True)
    proxy_command = Unicode(
        help="Command used to connect to the worker, as in ssh's ProxyCommand; %h and %p are replaced by host and port."
    ).tag(config=True)
    ssh_user = Unicode(help="Login name on the worker; empty for the name in the node's metadata.").tag(config=True)
    forward_env = List(
        Unicode(),
        help="Names of environment variables to pass to kernels, in addition to JPY_SESSION_NAME and the "
        "variables in the kernelspec's `env`; full names, no wildcards. Default: "
        "$JUPYTER_TPU_FORWARD_ENV.",
    ).tag(config=True)
    transport = Enum(
        ["", "ipc", "tcp"],
        "",
        help="How clients on this machine reach the kernel: Unix sockets (ipc) or loopback ports (tcp); empty "
        "for ipc if the system supports it.",
    ).tag(config=True)

    started: ClassVar[WeakValueDictionary[str, TPUProvisioner]] = WeakValueDictionary()
    """All provisioners by kernel id, including those of dead kernels, which Jupyter Server drops from its own list."""

    _host: KernelHost | None = None
    _launch: Launch | None = None
    _found: RegisteredKernel | None = None
    _is_unsure = False
    _restart_requested_at: float | None = None
    _runs: ExecutionLog | None = None
    _recovery: RecoveryProgress = "no"
    _restart_limit = 0

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        apply_saved_choices(os.environ)  # this works even in programs that don't know this product, such as nbclient
        import_ahead()  # a provisioner is created a while before `launch_kernel` needs asyncssh
        self._registry = RegistrySync(lambda note: self.call("note_kernel", note=note))

    @default("endpoint")
    def _default_endpoint(self) -> str:
        return settings_from_environment().endpoint

    @default("forward_env")
    def _default_forward_env(self) -> list[str]:
        return forwarded_names(os.environ)

    @property
    def _manager(self) -> Any:
        """The KernelManager."""
        return self.parent

    @property
    def has_process(self) -> bool:
        """Whether there is a kernel. jupyter_client asserts this after `launch_kernel`."""
        return self._host is not None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Prepare the launch. Called first for each start and restart."""
        arguments = tuple(kwargs.pop("extra_arguments", ()))
        folder = kwargs.pop("cwd", None)  # the notebook's folder on this machine, which doesn't exist on the worker
        kwargs = await super().pre_launch(cmd=[], **kwargs)
        if self._host is None:
            await self._find_note()
        self._allow_restarts()
        self._provide_curve_keys()
        self._launch = Launch(
            kernel_id=self.kernel_id,
            key=self._manager.session.key.decode(),
            signature_scheme=self._manager.session.signature_scheme,
            env=self._forwarded_env(kwargs["env"]),
            cwd=self.cwd,
            folder=Path(folder) if folder else None,
            extra_arguments=arguments,
            workers=self.workers,
        )
        return kwargs

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:  # noqa: ARG002
        """Start the kernel, or restart it with the same sockets. Return the connection info for the KernelManager."""
        assert self._launch, "pre_launch comes first"
        self._restart_requested_at = None
        report = ProgressReport(self._manager, self.log, self._identity())
        is_for_restarter = self._is_for_restarter()
        try:
            await self._start(self._launch, report)
        except TpuError as error:
            report({"phase": "failed", "message": str(error), "error_code": error.code})
            keep_tracebacks_out(self.log)
            if not is_for_restarter:  # see `_is_for_restarter`
                raise
        assert self._host
        self.started[self.kernel_id] = self
        self.connection_info = cast(KernelConnectionInfo, self._host.connection_info())
        return self.connection_info

    async def poll(self) -> int | None:
        """Return the exit code, or None until the kernel is known to have exited.

        Jupyter calls this often, so it makes no request to the node. It also returns None while the kernel's node is
        being recreated. When the node is READY, the KernelManager's restarter starts the kernel on it.
        """
        if self._host is None:
            return 0
        self._raise_if_refused(self._host)
        if self._is_unsure or await self._awaits_node(self._host):
            return None
        if self._host.kernel.is_gone and self._recovery == "no" and self._is_for_restarter():
            await self._give_up()
        return self._host.kernel.exit_code

    def _raise_if_refused(self, host: KernelHost) -> None:
        """Abort a restart that the worker rejected because its disk is full; the old process keeps running.

        The KernelManager polls until the process exits, and has already stopped its restarter.
        """
        requested_at, refused = self._restart_requested_at, host.kernel.refused_restart
        if requested_at is None or refused is None or refused[0] < requested_at - _MEANWHILE_S:
            return
        # Undo what the KernelManager and we have set for the restart, so that the kernel is watched as before.
        self._restart_requested_at = host.kernel.refused_restart = None
        host.kernel.is_asked_to_end = False
        self._manager.shutting_down = False
        self._manager.start_restarter()
        with host.naming_worker():
            raise refused[1]

    async def wait(self) -> int | None:
        """Wait until the kernel exits, and return its exit code. The caller sets a timeout."""
        return await link_thread.run(self._host.kernel.wait()) if self._host else 0

    async def send_signal(self, signum: int) -> None:
        """Send a signal.

        Jupyter uses this for interrupts too, unless the kernelspec's interrupt_mode is ``message``.
        """
        if self._host and signum == signal.SIGINT:
            await link_thread.run(self._host.kernel.interrupt())
        elif self._host and signum:
            await link_thread.run(self._host.kernel.send_signal(signum))

    async def kill(self, restart: bool = False) -> None:  # noqa: ARG002 - not passed on reliably (jupyter_client#1061)
        """Kill the kernel."""
        self._is_unsure = False
        if self._host:
            if self._recovery == "coming":  # the user does not want to wait for the node
                self._host.kernel.expect_end()
            await link_thread.run(self._host.kernel.kill())

    async def shutdown_requested(self, restart: bool = False) -> None:
        """Record that the kernel is expected to exit. Called after the shutdown message was sent."""
        self._is_unsure = False
        self._restart_requested_at = time.monotonic() if restart else None
        if self._host:
            self._host.kernel.expect_end()

    @asynccontextmanager
    async def restarting(self) -> AsyncIterator[None]:
        """Queue cells for the new process while the caller restarts the kernel within this context.

        Raises:
            EnvironmentFailed: the worker could not start a new process, so the old process was not killed.
        """
        host = self._host
        if host is None:
            yield
            return
        await link_thread.run(host.hold_cells())
        try:
            await self._check_restart()
            yield
        finally:
            await link_thread.run(host.release_cells())

    async def _check_restart(self) -> None:
        """Check that the worker can start a new process, before the old process is interrupted or killed.

        A KernelManager interrupts the kernel first, or kills it (``now``), so this check runs before the manager's
        restart. It is skipped while the link is disconnected, because the restart then waits for the link.

        Raises:
            EnvironmentFailed: the worker's disk is full or not writable.
        """
        if self._host is None or self._host.link_status.state != "live":
            return
        try:
            async with asyncio.timeout(_CHECK_S):
                await link_thread.run(self._host.check_restart())
        except EnvironmentFailed:
            raise
        except (TpuError, TimeoutError) as error:  # the agent is too old, or the kernel no longer exists
            self.log.info("It is unknown whether %s can be restarted: %s", self.kernel_id, error)
        self._host.kernel.refused_restart = None

    async def terminate(self, restart: bool = False) -> None:  # noqa: ARG002 - the same
        """Send SIGTERM. Called after the shutdown message had no effect."""
        if self._host:
            await link_thread.run(self._host.kernel.terminate())

    async def cleanup(self, restart: bool = False) -> None:
        """Release all resources. Called after every shutdown; some programs call it twice, or before any start."""
        # After a restart's shutdown, keep the sockets and the link for the next process.
        if self._host and not restart:
            host, self._host = self._host, None
            self.started.pop(self.kernel_id, None)
            has_ended = await _leave_after(host.close())
            # Without a response from the worker, the note remains, marked as stopped, and the next server shuts down
            # the kernel.
            await self._forget_runs()
            if has_ended:
                await self._registry.remove()
            else:
                await self._registry.mark_ended()

    @property
    def note(self) -> RegisteredKernel | None:
        """The note that lets another server take over this kernel, or None if there is no note."""
        return self._registry.note

    async def can_be_left(self) -> bool:
        """If the note of the kernel is missing, try to write it. Return whether the next server can find the kernel."""
        await self._registry.write_unwritten()
        return self.note is not None

    async def change_note(self, change: Callable[[RegisteredKernel], RegisteredKernel]) -> None:
        """Update the fields of the kernel's note whose values only the server knows, such as the sessions."""
        await self._registry.change(change)
        if self._runs and self.note:
            self._runs.notebook = self.note.notebook

    async def learn_state(self) -> Mapping[str, Any]:
        """Return the agent's ``kernel_info`` for a kernel that an earlier server started. Waits for the link.

        The result is empty if the kernel is gone. The KernelManager's restarter does not restart an exited kernel,
        because the user must first learn that its variables are lost.
        """
        info = await link_thread.run(self._started().learn_state())
        if await self._awaits_node(self._started()) or self._recovery == "ready":
            self.log.info("The kernel %s waits for its node.", self.kernel_id)
        elif self._started().kernel.exit_code is not None:
            self._manager.stop_restarter()
            await self._forget_if_gone()
        else:
            self._registry.send_to_agent()
        self._is_unsure = False
        return info

    @property
    def end(self) -> str:
        """How and why the kernel exited, for display; empty while it is running or its node is being recreated."""
        kernel = self._started().kernel
        if kernel.exit_code is None or self._recovery != "no":
            return ""
        if kernel.is_gone:
            return kernel.reason or "Someone else has ended the kernel."
        return f"The kernel ended ({exit_text(kernel.exit_code)}). {kernel.reason}".strip()

    @property
    def node_end(self) -> NodeEnd | None:
        """How and why the kernel's node was stopped or deleted; None if the node is running or was replaced."""
        loss = self._host.loss if self._host else None
        return loss.end if loss else None

    @property
    def waits_for_node(self) -> bool:
        """Whether auto-recovery is recreating, or has just recreated, the node and will start the kernel on it."""
        return self._recovery != "no"

    def recovery_view(self) -> dict[str, Any] | None:
        """Return the state of the lost node's auto-recovery, or None if it is off. Blocks on the disk."""
        loss = self._host.loss if self._host else None
        return recovery_view(self._worker_key(), loss) if loss else None

    async def leave(self) -> None:
        """Detach from the kernel, which keeps running. The next server finds it by its note."""
        self._registry.close()
        self.started.pop(self.kernel_id, None)
        if self._host:
            host, self._host = self._host, None
            await _leave_after(host.leave())
        if self._runs:
            self._runs.close()

    def lost_runs(self) -> LostRuns | None:
        """Return the lost runs that the user has not yet rerun or dismissed. Blocks on the disk.

        They include those of earlier kernels of its notebook.
        """
        return self._runs.offered() if self._runs else None

    def settle_lost_runs(self) -> None:
        """Remove the lost runs, because the user has rerun or dismissed them. Blocks on the disk."""
        if self._runs:
            self._runs.settle()

    async def follow(self, from_seq: int | Literal["end"], deliver: Deliver) -> LoopBridge:
        """Deliver the kernel's messages from all channels in this loop, starting at `from_seq` or at the next message.

        May be called from any loop once the kernel has been started. See `LoopBridge` for `deliver` and for the events
        that are delivered in addition to messages.

        Raises:
            WrongState: no kernel was started.
        """
        host, follower = self._started(), LoopBridge(deliver)
        try:
            await link_thread.run(host.follow(follower, from_seq))
        except BaseException:
            await follower.close()
            raise
        return follower

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the agent for this kernel. Waits while the link is disconnected.

        Raises:
            WrongState: no kernel was started.
            TpuError: the agent returned an error, or the link is lost (`WorkerUnreachable`).
        """
        return await link_thread.run(self._started().call(method, params))

    @property
    def link_state(self) -> LinkStatus:
        """The state of the link to the worker, without using the network.

        Raises:
            WrongState: no kernel was started.
        """
        return self._started().link_status

    def _started(self) -> KernelHost:
        if self._host is None:
            raise WrongState("No kernel is running.", hint="Start a kernel.")
        return self._host

    async def get_provisioner_info(self) -> dict[str, Any]:
        """Return the kernel and its connection as JSON. Loading this data does not attach to the kernel."""
        info = await super().get_provisioner_info()
        connection = {name: _as_text(value) for name, value in self.connection_info.items()}
        return {**info, "connection_info": connection, **{name: getattr(self, name) for name in _PLACE}}

    async def load_provisioner_info(self, provisioner_info: dict[str, Any]) -> None:
        """Restore the state from the result of `get_provisioner_info`."""
        connection = dict(provisioner_info["connection_info"])
        connection["key"] = str(connection.get("key", "")).encode()
        await super().load_provisioner_info({**provisioner_info, "connection_info": connection})
        for name in _PLACE:
            setattr(self, name, provisioner_info.get(name, getattr(self, name)))  # an older version had fewer fields

    def get_shutdown_wait_time(self, recommended: float = 5.0) -> float:
        """Return at least 10 s, because the worker may be far away. If the link is disconnected, return 1 s."""
        is_cut = self._host is not None and self._host.link_status.state not in ("live", "resuming")
        return _WAIT_WHILE_CUT_S if is_cut else max(recommended, 10.0)

    def get_stable_start_time(self, recommended: float = 10.0) -> float:
        """Return at least 20 s, because a kernel may start slowly on a small VM."""
        return max(recommended, 20.0)

    async def _start(self, launch: Launch, report: ProgressReport) -> None:
        if self._found:
            self._host = await self._attach_found(self._found, report)
            return
        if self._host:
            await self._restart(self._host, launch, report)
        else:
            self._host = await self._start_with_note(launch, report)
        self.workers = workers = self._host.workers
        await self._registry.change(lambda note: replace(note, workers=workers))
        self._registry.send_to_agent()

    async def _restart(self, host: KernelHost, launch: Launch, report: ProgressReport) -> None:
        after_death = self._is_for_restarter()
        # The restarter must not replace a lost kernel with an empty one, because that is the user's decision.
        if host.kernel.is_gone and after_death and self._recovery == "no":
            await self._forget_if_gone()
            raise KernelFailed(self.end, hint="Restart the kernel, or shut it down.")
        try:
            await link_thread.run(host.restart(launch, report, after_death=after_death))
        except TpuError:
            if host.loss:  # the restart was too early: the kernel is still waiting for its node
                host.kernel.is_asked_to_end = False
            raise
        self._recovery = "no"
        await self._registry.write_again()

    async def _awaits_node(self, host: KernelHost) -> bool:
        """Return whether the kernel's lost node is being recreated. If so, pages show the kernel as starting."""
        loss = host.loss
        if loss is None or not self._is_for_restarter():
            self._recovery = "no"
            return False
        before = self._recovery
        self._recovery = await asyncio.to_thread(recovery_progress, self._worker_key(), loss, time.time())
        if before == "no" != self._recovery:  # `poll` calls this every few seconds
            await link_thread.run(host.report_wait())
        return self._recovery == "coming"

    async def _forget_runs(self) -> None:
        if self._runs:
            await asyncio.to_thread(self._runs.remove)

    async def _give_up(self) -> None:
        """Stop the restarter, because restarts would fail and JupyterLab would open a dialog for each attempt."""
        restarter = self._manager._restarter
        if restarter.restart_limit:
            self._restart_limit, restarter.restart_limit = restarter.restart_limit, 0
        await self._forget_if_gone()

    def _allow_restarts(self) -> None:
        restarter = getattr(self._manager, "_restarter", None)
        if restarter is not None and self._restart_limit:
            self._restart_limit, restarter.restart_limit = 0, self._restart_limit

    async def _forget_if_gone(self) -> None:
        if self._started().kernel.is_gone and self._registry.note:
            self.log.warning(
                "The kernel %s on %s is gone; its note was removed: %s", self.kernel_id, self.node, self.end
            )
            await self._registry.remove()
            await self._forget_runs()

    def _is_for_restarter(self) -> bool:
        """Return whether a dead kernel is being restarted by the KernelManager's restarter, not by the user.

        If the restart raised an error, the restarter would stop permanently, and the front end would show "restarting"
        forever. The failure is therefore only reported, and the restarter declares the kernel dead after a few
        attempts.
        """
        has_restarter = getattr(self._manager, "_restarter", None) is not None
        return has_restarter and self._host is not None and self._host.kernel.has_died

    async def _find_note(self) -> None:
        """Find the kernel's note if this process has claimed it. Kernels of other servers must not be changed.

        Raises:
            WrongState: the id belongs to a kernel of another server.
        """
        # Without a server, there are no notes: such kernels are shut down with their program.
        note = await asyncio.to_thread(KernelRegistry().find, self.kernel_id) if self._root_dir else None
        if note is None:
            return
        if note.owner != this_process():
            raise WrongState(
                Text("The kernel {kernel} was started by another Jupyter server.", kernel=self.kernel_id),
                exists=Text("The kernel was last seen on {node}.", node=NodeName.parse(note.node).node_id),
                hint=Text(
                    "Start a server in {folder} to restore the kernel; `jupyter tpu kernels` lists it.",
                    folder=note.root_dir,
                ),
            )
        # The note overrides the kernelspec, which may have been changed or removed since.
        for name in (*_PLACE, "python"):
            setattr(self, name, getattr(note, name))
        session = self._manager.session
        session.key, session.signature_scheme = note.key.encode(), note.signature_scheme
        self._found = note

    @property
    def _root_dir(self) -> str:
        """The server's notebook folder, or "" without a server. Kernels without a server end with their program."""
        folder = getattr(self._manager.parent, "root_dir", "")
        return os.path.realpath(folder) if folder else ""

    def _note_of(self, launch: Launch) -> RegisteredKernel:
        return RegisteredKernel(
            kernel_id=self.kernel_id,
            kernel_name=self._manager.kernel_name,
            node=self.node,
            endpoint=self.endpoint,
            worker_id=self.worker_id,
            workers=self.workers,
            python=self.python,
            key=launch.key,
            signature_scheme=launch.signature_scheme,
            extra_arguments=launch.extra_arguments,
            root_dir=self._root_dir,
            owner=this_process(),
        )

    async def _start_with_note(self, launch: Launch, report: ProgressReport) -> KernelHost:
        """Write a kernel's note, then start the kernel, so that the kernel can be found if this process is killed."""
        if self._root_dir:
            await self._registry.write(self._note_of(launch))
        try:
            return await self._start_host(launch, report)
        except BaseException:
            await self._registry.remove()
            await self._forget_runs()
            raise

    async def _start_host(self, launch: Launch, report: ProgressReport) -> KernelHost:
        host = self._new_host()
        try:
            await link_thread.run(host.start(launch, report))
        except BaseException:  # even if the start was cancelled here but succeeded on the worker
            await _leave_after(host.give_up())
            raise
        return host

    async def _attach_found(self, note: RegisteredKernel, report: ProgressReport) -> KernelHost:
        host = self._new_host()
        if self._runs:
            self._runs.notebook = note.notebook
        try:
            await link_thread.run(host.attach(self.kernel_id, report))
        except BaseException:
            await _leave_after(host.leave())
            raise
        self._registry.adopt(note)
        self._found, self._is_unsure = None, True
        return host

    def _worker_key(self) -> WorkerKey:
        return WorkerKey(
            node=NodeName.parse(self.node),
            endpoint=self.endpoint,
            worker_id=self.worker_id,
            python=self.python,
            proxy_command=self.proxy_command,
            ssh_user=self.ssh_user,
        )

    def _new_host(self) -> KernelHost:
        addresses = TcpAddresses() if self.transport == "tcp" else default_addresses()
        on_link = LinkReport(self._manager, self._identity())
        self._runs = self._new_runs()
        key = self._worker_key()
        environment = KernelEnvironment(key, self.environment)
        return KernelHost(
            key,
            link_thread.enter(),
            addresses,
            self._secrets(),
            on_link,
            runs=self._runs,
            environment=environment,
            workers=self.workers,
            sends_costs=not self._root_dir,
        )

    def _new_runs(self) -> ExecutionLog | None:
        """Return the log of runs for a server's kernel. Without a server, return None: no page could offer a rerun."""
        try:
            return ExecutionLog(runs_folder(), self.kernel_id) if self._root_dir else None
        except TpuError as error:
            self.log.warning("Executed cells on %s are not logged: %s", self.node, error)
            return None

    def _identity(self) -> dict[str, str]:
        return {"kernel_id": self.kernel_id, "kernel_name": self._manager.kernel_name, "node_name": self.node}

    def _forwarded_env(self, env: Mapping[str, str]) -> dict[str, str]:
        own = self.kernel_spec.env if self.kernel_spec else {}
        node_id = self.node.rpartition("/")[2]
        server = getattr(self._manager.parent, "parent", None)
        language_of = getattr(getattr(server, "web_app", None), "settings", {}).get(LANGUAGE_SETTING, str)
        if language := language_of():
            env = {**env, LANGUAGE_VARIABLE: language}
        return {**kernel_env(node_id, env, self.forward_env), **{name: env[name] for name in own if name in env}}

    def _provide_curve_keys(self) -> None:
        """Create keys for the local sockets if the KernelManager requires encryption. Restarts reuse the keys."""
        manager = self._manager
        if getattr(manager, "transport_encryption", "disabled") != "disabled" and manager.curve_publickey is None:
            manager.curve_publickey, manager.curve_secretkey = zmq.curve_keypair()

    def _secrets(self) -> Secrets:
        session, public = self._manager.session, getattr(self._manager, "curve_publickey", None)
        return Secrets(
            key=session.key,
            signature_scheme=session.signature_scheme,
            curve=(public, self._manager.curve_secretkey) if public else None,
        )


async def _leave_after(work: Coroutine[Any, Any, None]) -> bool:
    """Run `work`, this provisioner's last task, in the link thread; return whether it finished before the timeout.

    After the timeout, the work continues in that thread.
    """
    return await link_thread.finish(work, _LAST_WORK_S)


def _as_text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
