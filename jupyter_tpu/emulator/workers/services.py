"""The services of one running worker: its metadata server, and its chips with their metrics port."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.emulator.access.access_tokens import AccessTokens
from jupyter_tpu.emulator.metadata.facts import CloudFacts, GuestAttributes, WorkerFacts
from jupyter_tpu.emulator.metadata.server import LOOPBACK, Changes, MetadataServer
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.protos import NodePb
from jupyter_tpu.emulator.workers import chips
from jupyter_tpu.emulator.workers.machine import Machine

LARGEST_GUEST_ATTRIBUTES = 256 * 1024  # assumed (behaviour `guest-attributes-size`); bounds a program's data
COORDINATOR_PORT = 8482  # jax/_src/clusters/cloud_tpu_cluster.py
UNKNOWN_NUMBER = "0"  # project number of a worker without a cloud, as in some tests


def chips_folder(machine: Path) -> Path:
    """Return the folder for the chips' device files, which is inside the machine's folder."""
    return machine / "chips"


@dataclass(slots=True)
class SharedContext:
    """Settings and facts that all workers share.

    Attributes:
        cloud: the source of current node data; if None, each worker uses the node data from when the worker started.
        metrics_port: the preferred port for runtime metrics; 0 means any port.
        api: the address of the cloud's REST API; empty until the server has started.
    """

    tokens: AccessTokens
    metrics_port: int = 0
    cloud: CloudFacts | None = None
    api: str = ""


class WorkerServices:
    """The services of one worker; call `start` and `close` once each."""

    def __init__(self, machine: Machine, node: NodePb, surroundings: SharedContext) -> None:
        self._machine = machine
        self._node = node
        self._surroundings = surroundings
        self._metrics_port: chips.ReservedPort | None = None
        self._guests = _read_guests(machine.folder)
        self.changes = Changes()
        self._metadata = MetadataServer(facts=self.facts, tokens=surroundings.tokens, guests=self, changes=self.changes)

    @property
    def node_name(self) -> str:
        """Full name of the worker's node."""
        return str(self._node.name)

    async def start(self) -> None:
        """Start the services and add their addresses to the environment of the machine's processes.

        Raises:
            OSError: no port is free.
        """
        folder = chips_folder(self._machine.folder)
        described = chips.chips_of(self._node.accelerator_type, self._machine.worker_id, self._machine.hostname)
        self._metrics_port = chips.reserve_port(folder, self._surroundings.metrics_port)
        # set the variables before any login, because a process gets its environment when it starts
        self._machine.variables.update(chips.write_chips(folder, described, self._metrics_port.number))
        try:
            address = f"{LOOPBACK}:{await self._start_metadata()}"
        except BaseException:
            self._metrics_port.close()
            raise
        self._machine.variables.update(GCE_METADATA_HOST=address, GCE_METADATA_IP=address)
        self._machine.variables.update(slice_variables(self._node, self._machine.worker_id))
        self.publish_api()

    @assumed(
        "api-of-workers",
        "Programs on a worker find the API through CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU, the variable that gcloud "
        "reads. On a real TPU VM they call tpu.googleapis.com.",
    )
    def publish_api(self) -> None:
        """Add the address of the API to the environment of later logins."""
        if self._surroundings.api:
            self._machine.variables["CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU"] = self._surroundings.api

    async def _start_metadata(self) -> int:
        """Listen on the last used port if it is free: processes that an earlier emulator started still use it."""
        kept = self._machine.folder / "metadata_port"
        port_before = int(kept.read_text(encoding="ascii")) if kept.exists() else 0
        try:
            port = await self._metadata.start(port_before)
        except OSError:
            port = await self._metadata.start(0)
        kept.write_text(str(port), encoding="ascii")
        return port

    async def close(self) -> None:
        """Stop the services of the worker."""
        await self._metadata.close()
        if self._metrics_port is not None:
            self._metrics_port.close()

    def facts(self) -> WorkerFacts:
        """Return the current facts for the metadata server."""
        cloud = self._surroundings.cloud
        name = self.node_name
        # use the current node, or the original node if it has been deleted
        node = (cloud.store.node(name) if cloud is not None else None) or self._node
        return WorkerFacts(
            node=node,
            worker_id=self._machine.worker_id,
            hostname=self._machine.hostname,
            project=name.split("/")[1],
            project_number=UNKNOWN_NUMBER if cloud is None else cloud.project_number,
            metrics_port=0 if self._metrics_port is None else self._metrics_port.number,
            is_preempted=cloud is not None and cloud.notices.is_announced(node),
            upcoming_maintenance=None if cloud is None else cloud.extras_of(name).get("upcomingMaintenance"),
            guest_attributes=self._guests,
        )

    @assumed("guest-attributes-size", "The guest attributes of a worker have a total size of at most 256 KiB.")
    def put_guest_attribute(self, namespace: str, key: str, value: str | None) -> None:
        """Implement `metadata.server.GuestAttributeStore`."""
        items = {**self._guests.get(namespace, {}), key: value}
        # None deletes the key
        kept = {name: text for name, text in items.items() if text is not None}
        guests = {**self._guests, namespace: kept}
        text = json.dumps(guests)
        # check before writing, so that a rejected value changes nothing
        if len(text) > LARGEST_GUEST_ATTRIBUTES:
            raise ValueError("The guest attributes of this worker are full.")
        _guest_file(self._machine.folder).write_text(text, encoding="utf-8")
        self._guests = {name: entries for name, entries in guests.items() if entries}

    def guest_items(self) -> list[tuple[str, str, str]]:
        """Return the namespace, key and value of each attribute that the worker's processes published."""
        return [(space, key, value) for space, items in self._guests.items() for key, value in items.items()]


@assumed(
    "jax-joins-the-workers",
    "On a node with several workers, jax.distributed.initialize() without arguments connects the "
    "workers, as on a real slice. A real VM needs no environment variables for this: JAX sees the chips "
    "and reads the rest from the metadata server. On an emulated worker, JAX sees no chips, so a login "
    "sets JAX_FORCE_TPU_INIT and TPU_WORKER_HOSTNAMES. It also sets JAX_COORDINATOR_BIND_ADDRESS, so "
    "that the coordinators of two nodes do not share port 8482. A program that passes "
    "coordinator_address itself must also pass coordinator_bind_address.",
)
def slice_variables(node: NodePb, worker_id: int) -> dict[str, str]:
    """Return the variables with which JAX finds the other workers of a slice, or none for a single worker."""
    addresses = [str(endpoint.ip_address) for endpoint in node.network_endpoints]
    if len(addresses) < 2:
        return {}
    joined = ",".join(addresses)
    return {
        "JAX_FORCE_TPU_INIT": "1",
        "TPU_WORKER_HOSTNAMES": joined,
        "JAX_COORDINATOR_BIND_ADDRESS": f"{addresses[worker_id]}:{COORDINATOR_PORT}",
    }


def _guest_file(folder: Path) -> Path:
    return folder / "guest_attributes.json"


def _read_guests(folder: Path) -> GuestAttributes:
    path = _guest_file(folder)
    found: GuestAttributes = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found
