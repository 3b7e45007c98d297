"""Compute the project's quota: limits from the cloud, usage by its nodes, and the remaining quota after a request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from jupyter_tpu import accelerators
from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.cloud.services.quotas import read_limits
from jupyter_tpu.errors import TpuError, templates_of
from jupyter_tpu.fleet.reconciler.inventory import Holdings, list_holdings
from jupyter_tpu.money import quota
from jupyter_tpu.money.quota import QuotaAfter, QuotaHolder, QuotaLimits, QuotaUse, QuotaUser
from jupyter_tpu.provisioning import Provisioning, takes_preemptible_quota

JSON = dict[str, Any]
KEEP_S = 60.0
"""How long a report is reused, in seconds: our choice, because each report takes several calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaReport:
    """Limits and usage of the project's quota.

    Attributes:
        holdings: the nodes and queued resources that use the quota.
        limits: the quota limits; None if they could not be read, see `limits_error`.
        limits_read_at: when the limits were read (Unix seconds).
    """

    holdings: Holdings
    limits: QuotaLimits | None
    limits_error: TpuError | None
    limits_read_at: float

    @property
    def as_of(self) -> float:
        """Return when the limits or the usage were read, whichever is earlier (Unix seconds)."""
        return min(self.holdings.as_of, self.limits_read_at)

    @property
    def uncounted(self) -> tuple[str, ...]:
        """Return the names of resources whose quota usage is unknown, because their type is not in the catalogue."""
        return tuple(held.name for held in self.holdings.held if not held.is_counted)

    @property
    def is_complete(self) -> bool:
        """Whether the quota usage of all resources is known."""
        return self.holdings.is_complete and not self.uncounted

    def uses(self) -> tuple[QuotaUse, ...]:
        """Return each limit together with the resources that count towards it."""
        return quota.uses(self.limits, self.holdings.held)

    def after(self, *, zone: str, accelerator_type: str, provisioning: Provisioning) -> tuple[QuotaAfter, ...]:
        """Return how much of each quota remains after creating a node of this type. A reserved node uses no quota.

        Raises:
            BadInput: there is no such type.
        """
        kind = accelerators.accelerator(accelerator_type)
        request = QuotaHolder(
            name="",
            kind="node",
            state="",
            zone=zone,
            accelerator_type=kind.type,
            is_preemptible=takes_preemptible_quota(provisioning),
            is_reserved=provisioning == "reserved",
        )
        return quota.quota_after(request, self.limits, self.holdings.held, is_complete=self.is_complete)


class QuotaService:
    """A cache of the quota report. It counts the usage again when the state of the nodes (`seen`) has changed."""

    def __init__(self, cloud: CloudApi, *, keep_s: float = KEEP_S) -> None:
        self._cloud = cloud
        self._keep_s = keep_s
        self._lock = asyncio.Lock()
        self._report: QuotaReport | None = None
        self._seen: Hashable = None

    async def report(self, seen: Hashable = None) -> QuotaReport:
        """Return limits and usage. Failures are part of the report, not raised. Concurrent calls share one read."""
        async with self._lock:
            known = self._report
            oldest = time.time() - self._keep_s
            # usage and limits expire separately: usage changes with each node, limits rarely
            holdings = known.holdings if known and known.holdings.as_of > oldest and seen == self._seen else None
            limits = known if known and known.limits_read_at > oldest else None
            self._report = await _report(self._cloud, holdings, limits)
            self._seen = seen
            return self._report

    def forget_use(self) -> None:
        """Make the next `report` call count the usage again. Call this after a deletion."""
        self._seen = object()  # this equals no other value, so the next call counts the usage again


async def read_quota(cloud: CloudApi) -> QuotaReport:
    """Read limits and usage now. Failures are part of the report, not raised."""
    return await _report(cloud, None, None)


async def _report(cloud: CloudApi, holdings: Holdings | None, known: QuotaReport | None) -> QuotaReport:
    limits, found = await asyncio.gather(_limits(cloud, known), _holdings(cloud, holdings))
    value, error, read_at = limits
    return QuotaReport(holdings=found, limits=value, limits_error=error, limits_read_at=read_at)


async def _holdings(cloud: CloudApi, known: Holdings | None) -> Holdings:
    return known or await list_holdings(cloud)


async def _limits(cloud: CloudApi, known: QuotaReport | None) -> tuple[QuotaLimits | None, TpuError | None, float]:
    if known:
        return known.limits, known.limits_error, known.limits_read_at
    read_at = time.time()
    try:
        return await read_limits(cloud.settings), None, read_at
    except TpuError as error:
        return None, error, read_at


def quota_view(report: QuotaReport, *, everything: bool = False) -> JSON:
    """Return the report as JSON, limits in use first. `everything` also includes limits irrelevant to the user."""
    error = report.holdings.error or report.limits_error
    shown = [use for use in report.uses() if everything or quota.is_worth_showing(use)]
    return {
        "as_of": report.as_of,
        "is_complete": report.is_complete,
        "unreachable": list(report.holdings.unreachable),
        "uncounted": list(report.uncounted),
        "source": report.limits.source if report.limits else None,
        "error": error.to_json() if error else None,
        "limits": [_use_view(use) for use in shown],
    }


def no_quota_view(error: TpuError) -> JSON:
    """Return an empty report, with the reason why the fleet could not start."""
    return {
        "as_of": None,
        "is_complete": False,
        "unreachable": [],
        "uncounted": [],
        "source": None,
        "error": error.to_json(),
        "limits": [],
    }


def _use_view(use: QuotaUse) -> JSON:
    return {
        **_quota_part(use),
        "scope": use.quota.scope,
        "free": use.free,
        "users": [_user_view(user) for user in use.users],
    }


def _quota_part(use: QuotaUse) -> JSON:
    return {
        "quota_id": use.quota.quota_id,
        "label": use.quota.label,
        "unit": use.quota.unit,
        "location": use.place,
        "limit": None if use.is_unlimited else use.limit,
        "is_unlimited": use.is_unlimited,
        "used": use.used,
        **templates_of({"label": use.quota.label}),
    }


def _user_view(user: QuotaUser) -> JSON:
    held = user.holder
    return {
        "name": held.name,
        "kind": held.kind,
        "state": held.state,
        "amount": user.amount,
        "is_leftover": held.is_leftover,
    }


def after_view(report: QuotaReport, rows: tuple[QuotaAfter, ...]) -> JSON:
    """Return the remaining amount of each quota after a request, as JSON."""
    error = report.holdings.error or report.limits_error
    return {
        "as_of": report.as_of,
        "is_complete": report.is_complete,
        "error": error.to_json() if error else None,
        "rows": [{**_quota_part(row.use), "asked": row.requested, "after": row.left, "fits": row.fits} for row in rows],
    }
