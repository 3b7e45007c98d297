"""The workers of nodes: machines with SSH servers. They are started, stopped and deleted with their node."""

from __future__ import annotations

import asyncio
import base64
import logging
import shutil
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu import accelerators
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.emulator.access.access_tokens import AccessTokens, read_or_create_key
from jupyter_tpu.emulator.metadata.facts import CloudFacts
from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.resources.protos import NodePb, State
from jupyter_tpu.emulator.resources.records import GuestItem
from jupyter_tpu.emulator.workers.image import Image
from jupyter_tpu.emulator.workers.machine import (
    Machine,
    SshServer,
    key_lines,
    machine_folders,
    open_machine,
    tokens_below,
)
from jupyter_tpu.emulator.workers.process_tree import kill_workers
from jupyter_tpu.emulator.workers.services import SharedContext, WorkerServices
from jupyter_tpu.emulator.workers.startup_script import is_booting, record_shutdown, run_startup_script
from jupyter_tpu.emulator.workers.worker_faults import WorkerFaults, resume_after_crash

_log = logging.getLogger(__name__)

StartSshServer = Callable[[Machine, int], Awaitable[SshServer]]
"""A function that starts an SSH server for a machine on a port (0 for any); raises OSError if the port is in use."""


@dataclass(slots=True)
class RunningWorker:
    """A running machine.

    `ssh_server` is None while a fault has closed it; `published_key` is the host key in the guest attributes, even
    after the control API has changed the actual one.
    """

    machine: Machine
    services: WorkerServices
    ssh_server: SshServer | None
    published_key: str


class Workers:
    """All workers of the emulated cloud, by the uid of their node."""

    def __init__(self, folder: Path, image: Image, open_door: StartSshServer, *, metrics_port: int = 0) -> None:
        """Store the settings; `metrics_port` is the preferred runtime metrics port (see `services.SharedContext`)."""
        self._folder = folder
        self._image = image
        self._open_door = open_door
        self._running: dict[str, list[RunningWorker]] = {}
        self._scripts: set[asyncio.Task[None]] = set()
        self._wiping: set[asyncio.Future[None]] = set()
        self.faults = WorkerFaults()
        self._surroundings = SharedContext(tokens=self._tokens(), metrics_port=metrics_port)

    def attach(self, cloud: CloudFacts) -> None:
        """Connect the workers to their cloud."""
        self._surroundings.cloud = cloud

    def share_api(self, address: str) -> None:
        """Pass the address of the cloud's REST API to the workers."""
        self._surroundings.api = address
        for workers in self._running.values():
            for worker in workers:
                worker.services.publish_api()

    def _tokens(self) -> AccessTokens:
        return AccessTokens(read_or_create_key(self._folder.parent / "token_key"))

    @property
    def tokens(self) -> AccessTokens:
        """The tokens that the workers' metadata servers issue and the API checks."""
        return self._surroundings.tokens

    async def start(self, node: NodePb) -> None:
        """Start all workers of a node; do nothing if they are running."""
        uid = str(node.id)
        if uid in self._running:
            return
        # set this before the first await, so that a second call returns at once
        self._running[uid] = []
        try:
            for worker_id in range(accelerators.accelerator(node.accelerator_type).workers):
                self._running[uid].append(await self._boot(node, worker_id))
        except BaseException:
            await self.stop(node)
            raise

    async def stop(self, node: NodePb) -> None:
        """Stop the SSH servers and kill every process of the node's workers; keep the home folders."""
        workers = self._running.pop(str(node.id), [])
        await self.faults.clear(*(worker.machine.token for worker in workers))
        for worker in workers:
            await _shut_down(worker)
        await self._kill_below(self._place(node))

    async def remove(self, node: NodePb) -> None:
        """Stop the node's workers and delete their files."""
        await self.stop(node)
        wiping = asyncio.ensure_future(asyncio.to_thread(_wipe, self._place(node)))
        self._wiping.add(wiping)  # a thread can't be cancelled, so `close` waits for it
        wiping.add_done_callback(self._wiping.discard)
        await asyncio.shield(wiping)

    async def remove_all(self) -> None:
        """Stop all workers and delete their files."""
        await self.close()
        await asyncio.to_thread(_wipe, self._folder)

    @assumed(
        "killed-emulator",
        "If the emulator is killed, the processes on its workers keep running, as they would if the API's servers "
        "failed. The next emulator with the same state folder takes the processes over, and ends those on nodes "
        "that are stopped, pre-empted or deleted.",
    )
    async def kill_strays(self, nodes: Iterable[NodePb]) -> None:
        """Kill the processes of all workers except the workers of these nodes; keep the home folders."""
        places = {self._place(node) for node in nodes}
        for place in self._folder.glob("*"):
            if place not in places:
                await self._kill_below(place)

    async def close(self) -> None:
        """Stop every worker, including those that an earlier emulator with this folder left running."""
        await self.faults.close()
        for workers in self._running.values():
            for worker in workers:
                await _shut_down(worker)
        self._running.clear()
        await asyncio.gather(*self._wiping)
        await self._kill_below(self._folder)
        await asyncio.gather(*self._scripts, return_exceptions=True)

    async def _kill_below(self, place: Path) -> None:
        """Kill every process of the machines whose folders are inside `place`."""
        if tokens := tokens_below(place):
            await kill_workers(tokens)
        for machine in machine_folders(place):
            record_shutdown(machine)

    @documented(
        "ssh-keys",
        "Each line of the metadata item ssh-keys allows a user to log in with the given key.",
        source="cloud.google.com/compute/docs/connect/add-ssh-keys; dstack backends/gcp/compute.py",
    )
    def update_keys(self, node: NodePb) -> None:
        """Update the workers' authorised SSH keys after a change of the node's or the project's metadata."""
        for worker in self._running.get(str(node.id), []):
            worker.machine.authorized = _keys_of(node)
            if worker.ssh_server is not None:
                worker.ssh_server.keys_changed()
        self.notify_change(node.name)

    def notify_change(self, name: str) -> None:
        """Wake the requests that wait for a change at the node's metadata servers."""
        for workers in self._running.values():
            for worker in workers:
                if worker.services.node_name == name:
                    worker.services.changes.notify()

    def guest_items(self, node: NodePb, worker_id: int) -> list[GuestItem]:
        """Return the guest attributes that a worker publishes; empty while it is not running."""
        workers = self._running.get(str(node.id), [])
        if node.state != State.READY or worker_id >= len(workers):
            return []
        worker = workers[worker_id]
        # the port is 0 while a fault keeps the server closed
        port = worker.ssh_server.port if worker.ssh_server else 0
        return [
            ("hostkeys", "ssh-ed25519", worker.published_key),
            ("guestInventory", "Hostname", worker.machine.hostname),
            ("guestInventory", "hostname", worker.machine.hostname),  # spelled as gcloud reads it
            ("emulator", "ssh-port", str(port)),
            *worker.services.guest_items(),
        ]

    # -- worker faults, set through the control API

    async def stop_ssh(self, node: NodePb, worker_id: int) -> None:
        """Stop the worker's SSH server; its processes continue."""
        worker = self._worker(node, worker_id)
        await _close(worker)
        worker.ssh_server = None

    async def restart_ssh(self, node: NodePb, worker_id: int) -> None:
        """Restart the worker's SSH server on its port."""
        worker = self._worker(node, worker_id)
        await _close(worker)
        worker.ssh_server = await self._open_at_saved_port(worker.machine)

    async def change_host_key(self, node: NodePb, worker_id: int) -> None:
        """Make the worker present a host key other than the one in its guest attributes."""
        self._worker(node, worker_id).machine.renew_host_key()
        await self.restart_ssh(node, worker_id)

    def ssh_servers(self, node: NodePb) -> list[SshServer | None]:
        """Return the SSH servers of a node's workers, by worker id; empty while the node is not running."""
        return [worker.ssh_server for worker in self._running.get(str(node.id), [])]

    def machines(self, node: NodePb) -> list[Machine]:
        """Return the machines of a node's running workers."""
        return [worker.machine for worker in self._running.get(str(node.id), [])]

    def machine(self, node: NodePb, worker_id: int) -> Machine:
        """Return the machine of a worker.

        Raises:
            Refusal: there is no such worker, or it is not running.
        """
        return self._worker(node, worker_id).machine

    def _worker(self, node: NodePb, worker_id: int) -> RunningWorker:
        workers = self._running.get(str(node.id), [])
        if not 0 <= worker_id < len(workers):
            raise errors.not_found(f"{node.name} worker {worker_id}")
        return workers[worker_id]

    def _place(self, node: NodePb) -> Path:
        # the name is short, because the paths of Unix sockets in the folder have at most 108 bytes; the UID
        # distinguishes nodes with the same name
        return self._folder / f"{node.name.rpartition('/')[2]}-{node.id % 10**8}"

    async def _boot(self, node: NodePb, worker_id: int) -> RunningWorker:
        machine = await asyncio.to_thread(
            open_machine,
            self._place(node) / str(worker_id),
            worker_id=worker_id,
            # the format of host names of real TPU VMs
            hostname=f"t1v-n-{node.id % 16**8:08x}-w-{worker_id}",
            accelerator_type=node.accelerator_type,
            image=self._image,
        )
        machine.authorized = _keys_of(node)
        await resume_after_crash(machine)
        services = WorkerServices(machine, node, self._surroundings)
        await services.start()
        worker = RunningWorker(machine, services, None, _public_key(machine))
        try:
            worker.ssh_server = await self._open_at_saved_port(machine)
        except BaseException:
            await _shut_down(worker)
            raise
        _log.info("worker %s of %s listens on port %s", worker_id, node.name, worker.ssh_server.port)
        # run the script when logins are already possible, as on a real VM; the node doesn't wait for the script
        self._run_startup_script(machine, node.metadata.get("startup-script", ""))
        return worker

    def _run_startup_script(self, machine: Machine, script: str) -> None:
        if is_booting(machine.folder) and script:
            task = asyncio.create_task(run_startup_script(machine, script))
            self._scripts.add(task)
            task.add_done_callback(self._script_ended)

    def _script_ended(self, task: asyncio.Task[None]) -> None:
        self._scripts.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("a startup script could not be run: %s", error)

    async def _open_at_saved_port(self, machine: Machine) -> SshServer:
        """Listen on the worker's last used port if it is free, so that ~/.ssh/config stays valid."""
        kept = machine.folder / "port"
        port_before = int(kept.read_text(encoding="ascii")) if kept.exists() else 0
        try:
            door = await self._open_door(machine, port_before)
        except OSError:
            door = await self._open_door(machine, 0)
        kept.write_text(str(door.port), encoding="ascii")
        return door


def _keys_of(node: NodePb) -> tuple[tuple[str, str], ...]:
    return key_lines(node.metadata.get("ssh-keys", ""))


def _wipe(folder: Path) -> None:
    """Delete the files of all machines below a folder, including files of their agents outside the home folders."""
    for place in machine_folders(folder):
        Home(place / "home" / ".jupyter-tpu").remove_run()
    shutil.rmtree(folder, ignore_errors=True)


async def _shut_down(worker: RunningWorker) -> None:
    await _close(worker)
    await worker.services.close()


async def _close(worker: RunningWorker) -> None:
    if worker.ssh_server is not None:
        await worker.ssh_server.close()


def _public_key(machine: Machine) -> str:
    """Return the public host key in base64, as in guest attributes."""
    return base64.b64encode(machine.host_key.public_data).decode()
