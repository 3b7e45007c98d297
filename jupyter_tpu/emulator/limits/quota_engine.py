"""The quota engine: the limits of each quota and location, and the check of requests against them.

A node counts against the limit of its region and the limit of its zone, and may exceed neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_tpu.emulator.limits.project import Project
from jupyter_tpu.emulator.limits.quota_ids import UNLIMITED, QuotaId, parse_quota_id, place_of, quota_ids_of, units_of
from jupyter_tpu.emulator.limits.quota_profiles import default_limit
from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import assumed, recorded
from jupyter_tpu.emulator.resources.protos import NodePb
from jupyter_tpu.emulator.store.settings import Facts, StoredSetting

if TYPE_CHECKING:
    from jupyter_tpu.emulator.store.holdings import Held

Usage = Counter[tuple[QuotaId, str]]
"""Chips or TensorCores in use, by quota and place: a zone or a region, depending on the quota's scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """One quota in one place: its limit (-1 for unlimited) and its usage."""

    quota: QuotaId
    place: str
    limit: int
    used: int

    @property
    def is_exceeded(self) -> bool:
        """Whether usage exceeds the limit."""
        return self.limit != UNLIMITED and self.used > self.limit

    def to_json(self) -> dict[str, Any]:
        """Return the limit and usage as the control API shows them."""
        return {
            "quota_id": str(self.quota),
            self.quota.scope: self.place,
            "limit": self.limit,
            "used": self.used,
            "unit": "chips" if self.quota.counts_chips else "TensorCores",
        }


@recorded(
    "leftovers-count",
    "A PREEMPTED or STOPPED node and a SUSPENDED or FAILED queued resource count against the quota until they "
    "are deleted.",
    source="marin-community/marin#87; notes of a public repository",
)
@assumed("quota-reserved", "Nodes with reserved capacity don't count against any quota.")
def usage(held: Iterable[Held]) -> Usage:
    """Return the usage of each quota by these nodes and queued resources."""
    used: Usage = Counter()
    for each in held:
        _count(used, each.node, each.zone, each.count)
    return used


def _count(used: Usage, node: NodePb, zone: str, count: int) -> None:
    if not node.scheduling_config.reserved:
        for quota in quota_ids_of(node):
            used[quota, place_of(quota, zone)] += units_of(node) * count


class QuotaEngine:
    """The limits of the project: stored limits, or the defaults of its profile."""

    def __init__(self, facts: Facts, project: Project) -> None:
        self._project = project
        self._setting = StoredSetting(facts, "project:quota_limits")
        rows = self._setting.read() or []
        # only limits that were set explicitly; all other limits come from the profile, so that they change with it
        self._set: dict[tuple[QuotaId, str], int] = {
            (parse_quota_id(name), place): limit for name, place, limit in rows
        }

    def limit(self, quota: QuotaId, place: str) -> int:
        """Return the limit in the quota's zone or region: the stored limit, or else `default_limit`."""
        found = self._set.get((quota, place))
        return self.default_limit(quota, place) if found is None else found

    def default_limit(self, quota: QuotaId, place: str) -> int:
        """Return the default limit, which the project's quota profile defines."""
        return default_limit(self._project.switches.quota_profile, quota, place)

    def set_limit(self, quota_id: str, place: str, limit: int) -> None:
        """Set and store a limit; -1 means unlimited. Raises ValueError if the quota is not a TPU quota."""
        self._set[parse_quota_id(quota_id), place] = limit
        self._save()

    def clear(self) -> None:
        """Reset all limits to those of the profile."""
        self._set.clear()
        self._setting.delete()

    def uses(self, held: Iterable[Held]) -> list[QuotaUse]:
        """Return every quota that has a stored limit or is in use."""
        used = usage(held)
        keys = sorted({*self._set, *used}, key=lambda key: (str(key[0]), key[1]))
        return [self._use(quota, place, used[quota, place]) for quota, place in keys]

    def check(self, nodes: Sequence[tuple[NodePb, str]], held: Iterable[Held], project_number: str) -> None:
        """Raise an error if the new nodes would exceed any limit. The error lists all limits that they would exceed."""
        wanted: Usage = Counter()
        for node, zone in nodes:
            _count(wanted, node, zone, 1)
        total = usage(held) + wanted
        # check only the quotas that the request counts against, because others may already be exceeded
        uses = (self._use(quota, place, total[quota, place]) for quota, place in wanted)
        exceeded = [use for use in uses if use.is_exceeded]
        if exceeded:
            raise errors.quotas_exceeded([_limit_of(use) for use in exceeded], project_number)

    def _use(self, quota: QuotaId, place: str, used: int) -> QuotaUse:
        return QuotaUse(quota=quota, place=place, limit=self.limit(quota, place), used=used)

    def _save(self) -> None:
        self._setting.write([[str(quota), place, limit] for (quota, place), limit in self._set.items()])


def _limit_of(use: QuotaUse) -> errors.QuotaLimit:
    return errors.QuotaLimit(str(use.quota), use.limit, f"{use.quota.scope} {use.place}")
