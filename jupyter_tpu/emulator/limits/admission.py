"""Check a call before anything is created: permissions, zone, rate of create calls, allowlist and quotas.

A check returns nothing or raises an error. The only state is the number of creates in the last minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.access.permissions import is_denied, permission_of
from jupyter_tpu.emulator.limits.project import Project
from jupyter_tpu.emulator.limits.quota_engine import QuotaEngine
from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.resources.protos import NodePb

if TYPE_CHECKING:
    from jupyter_tpu.emulator.store.holdings import Held

MINUTE_S = 60.0  # per minute (behaviour `E11-create-rate`); the window slides (behaviour `create-rate-window`)


class Admission:
    """Check calls against the settings and quotas of one project."""

    def __init__(
        self, *, project: Project, quotas: QuotaEngine, now: Callable[[], float], project_id: str, project_number: str
    ) -> None:
        self._project = project
        self._quotas = quotas
        self._now = now
        self._project_id = project_id
        self._project_number = project_number
        self._creates: deque[float] = deque()

    @assumed(
        "refusal-order",
        "For each call, the emulator checks first the API, then the permission, the location and the rate, and "
        "reports the first refusal.",
    )
    def check_call(self, method: str, target: str) -> None:
        """Raise an error if the project's settings don't allow the call; `target` is the resource in the request."""
        switches = self._project.switches
        if not switches.api_enabled:
            raise errors.api_disabled(self._project_number)
        # check after the API switch: while the API is off, permissions don't matter
        permission = permission_of(method)
        if is_denied(permission, switches.denied_permissions):
            raise errors.permission_denied(permission, target)
        self._check_location(target)
        if method == "CreateNode":
            # check the rate last: a rejected call must not count
            self._count_create(switches.creates_per_minute)

    def check_nodes(self, nodes: Sequence[NodePb], zone: str, held: Iterable[Held], *, is_queued: bool = False) -> None:
        """Raise an error if the allowlist or a quota forbids these new nodes in one zone.

        `held` lists what all nodes and queued resources of the project use, including leftovers; `is_queued` selects
        the text for a queued resource.
        """
        for node in nodes:
            self._check_allowlist(node.accelerator_type, zone, is_queued)
        self._quotas.check([(node, zone) for node in nodes], held, self._project_number)

    @documented(
        "external-addresses",
        "For each network with an external IP, each TPU VM uses one of the external addresses of its region.",
        source="google-cloud-tpu, NetworkConfig.enable_external_ips; compute.googleapis.com quota IN_USE_ADDRESSES",
    )
    def addresses_left(self, held: Iterable[Held], zone: str) -> bool:
        """Return whether the region of a zone has enough external IP addresses for `held`.

        `held` lists the new nodes and all nodes that have VMs (stopped and pre-empted nodes have none).
        """
        limit = self._project.switches.addresses_per_region
        region = accelerators.region_of(zone)
        return limit is None or limit >= sum(
            addresses_of(each.node) * each.count for each in held if accelerators.region_of(each.zone) == region
        )

    def _check_location(self, target: str) -> None:
        zone = "".join(target.split("/")[3:4])
        # a policy may contain the zone or its whole region
        if {zone, accelerators.region_of(zone)} & {*self._project.switches.denied_locations} - {""}:
            raise errors.zone_unknown(zone, self._project_id)

    @assumed(
        "create-rate-window",
        "A CreateNode call counts towards the limit for 60 s of virtual time. Calls that the limit refuses do not "
        "count.",
    )
    def _count_create(self, limit: int | None) -> None:
        now = self._now()
        # a queue of timestamps makes the window slide without a background task
        while self._creates and self._creates[0] <= now - MINUTE_S:
            self._creates.popleft()
        if limit is not None and len(self._creates) >= limit:
            raise errors.create_rate_exceeded(limit, self._project_number)
        self._creates.append(now)

    def _check_allowlist(self, accelerator_type: str, zone: str, is_queued: bool) -> None:
        allowlist = self._project.switches.allowlist
        if allowlist is not None and not is_listed(accelerator_type, zone, allowlist):
            refuse = errors.not_allowlisted_in_queue if is_queued else errors.not_allowlisted
            raise refuse(accelerator_type, zone)

    def clear(self) -> None:
        """Forget the create calls of the last minute."""
        self._creates.clear()


def is_listed(accelerator_type: str, zone: str, allowlist: Iterable[str]) -> bool:
    """Return whether an allowlist (entries such as ``v5p-8`` or ``v5p@us-east5-a``) allows the type in the zone."""
    names = (accelerator_type, accelerators.accelerator(accelerator_type).generation)
    covering = {entry for name in names for entry in (name, f"{name}@{zone}")}
    return not covering.isdisjoint(allowlist)


def addresses_of(node: NodePb) -> int:
    """Return the number of external addresses of a node: one per VM for each network with external IPs."""
    configs = (node.network_config, *node.network_configs)
    networks = sum(bool(config.enable_external_ips) for config in configs)
    return networks * accelerators.accelerator(node.accelerator_type).workers
