"""Routes of the control API for the project's limits, for pre-emption and for maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.control.node_names import node_named
from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.limits import capacity
from jupyter_tpu.emulator.limits.quota_ids import UNLIMITED, parse_quota_id
from jupyter_tpu.emulator.limits.reservations import reservation_from_json
from jupyter_tpu.emulator.resources import fields
from jupyter_tpu.emulator.transport.json_text import json_object


def _steps(value: object) -> list[list[Any]]:
    for step in fields.items(value):
        if not isinstance(step, list) or len(step) != 2:
            raise ValueError(f"{step!r} is not of the form [seconds from now, chips or null]")
    return fields.items(value)


_CAPACITY: Mapping[str, fields.Check] = {
    "zone": fields.text,
    "family": fields.text,
    "chips": fields.optional(fields.whole),
    "script": _steps,
    "seed": fields.optional(fields.whole),
}
_STOCKOUT: Mapping[str, fields.Check] = {
    "zone": fields.text,
    "family": fields.text,
    "chips": fields.whole,
    "for_s": fields.optional(fields.amount),
}
_QUOTA: Mapping[str, fields.Check] = {
    "quota_id": fields.text,
    "zone": fields.text,
    "region": fields.text,
    "limit": fields.optional(fields.whole),
}
_PREEMPT: Mapping[str, fields.Check] = {"node": fields.text, "notice_s": fields.optional(fields.amount)}
_MAINTENANCE: Mapping[str, fields.Check] = {
    "node": fields.text,
    "kind": fields.text,
    "in_s": fields.optional(fields.amount),
}


class ControlRules:
    """The route handlers for limits, pre-emption and maintenance. Each method returns the JSON that is sent."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    async def project(self, _: web.Request) -> Any:
        """Return the project's settings: permissions and limits."""
        return self._cloud.rules.project.switches.to_json()

    async def change_project(self, request: web.Request) -> Any:
        """Change the project's settings; return all settings."""
        settings = await json_object(request)
        with self._cloud.store.transaction():
            switches = self._cloud.rules.project.change(settings)
        self._cloud.timeline.arm()  # a waiting queued resource may now fit
        return switches.to_json()

    async def quotas(self, _: web.Request) -> Any:
        """Return the quotas that have a limit or are in use."""
        uses = self._cloud.rules.quotas.uses(self._cloud.held())
        return {"quotas": [use.to_json() for use in uses]}

    async def set_quota(self, request: web.Request) -> Any:
        """Limit a quota in its zone or region; null means no limit."""
        settings = fields.checked(await json_object(request), _QUOTA, required=("quota_id", "limit"))
        # JSON has no infinity, and the engine writes -1 as Service Usage does
        limit = UNLIMITED if settings["limit"] is None else settings["limit"]
        with self._cloud.store.transaction():
            self._cloud.rules.quotas.set_limit(settings["quota_id"], _place(settings), limit)
        self._cloud.timeline.arm()
        return await self.quotas(request)

    async def capacity(self, _: web.Request) -> Any:
        """Return the pools of chips whose size was set; all other pools are unlimited."""
        return {"capacity": self._cloud.rules.capacity.uses(self._cloud.store.occupying_nodes())}

    async def set_capacity(self, request: web.Request) -> Any:
        """Set the capacity of a pool: a fixed number of chips, a script of changes, or random numbers."""
        settings = fields.checked(await json_object(request), _CAPACITY, required=("zone", "family"))
        if "chips" not in settings and "script" not in settings:
            raise ValueError("chips (null: unlimited) or a script is missing")
        with self._cloud.store.transaction():
            capacity.change(self._cloud.rules.capacity, settings)
        self._cloud.timeline.arm()
        return await self.capacity(request)

    async def stock_out(self, request: web.Request) -> Any:
        """Reduce a zone's capacity to 0 or a few chips for ``for_s`` seconds.

        If ``for_s`` is missing, the stock-out lasts until the capacity is changed; if it is 0, the stock-out ends.
        """
        settings = fields.checked(await json_object(request), _STOCKOUT, required=("zone",))
        with self._cloud.store.transaction():
            self._stock_out(settings)
        self._cloud.timeline.arm()
        return await self.capacity(request)

    def _stock_out(self, settings: Mapping[str, Any]) -> None:
        pools, zone, family = self._cloud.rules.capacity, settings["zone"], settings.get("family", "")
        chips, for_s = settings.get("chips", 0), settings.get("for_s")
        # a stock-out doesn't change the pool; a number of chips replaces it, temporarily or permanently
        if not chips:
            pools.stock_out(zone, family, for_s)
            return
        for each in [family] if family else capacity.families_in(zone):
            pools.set_script(zone, each, [(0.0, chips)] if for_s is None else [(0.0, chips), (for_s, None)])

    async def preempt(self, request: web.Request) -> Any:
        """Preempt a node, immediately or with `notice_s` seconds of notice to its workers."""
        settings = fields.checked(await json_object(request), _PREEMPT, required=("node",))
        node = node_named(self._cloud.store, settings["node"])
        if settings.get("notice_s"):
            # the workers get the notice from their metadata servers
            self._cloud.notices.announce(node, settings["notice_s"])
        else:
            await self._cloud.effects.preempt(node)
        self._cloud.timeline.arm()
        return {"node": node.name}

    async def maintenance(self, _: web.Request) -> Any:
        """Return planned and ongoing maintenance."""
        return {"maintenance": [event.to_json() for event in self._cloud.maintenance.events()]}

    async def announce_maintenance(self, request: web.Request) -> Any:
        """Schedule a maintenance event for a node."""
        settings = fields.checked(await json_object(request), _MAINTENANCE, required=("node",))
        node = node_named(self._cloud.store, settings["node"])
        with self._cloud.store.transaction():
            self._cloud.maintenance.announce(node, settings.get("kind", "SCHEDULED"), settings.get("in_s"))
        self._cloud.timeline.arm()
        return await self.maintenance(request)

    async def reservations(self, _: web.Request) -> Any:
        """Return all reservations."""
        return {"reservations": self._cloud.rules.reservations.to_json()}

    async def set_reservation(self, request: web.Request) -> Any:
        """Create or change a reservation; 0 chips delete it."""
        reservation = reservation_from_json(await json_object(request))
        with self._cloud.store.transaction():
            self._cloud.rules.reservations.set(reservation)
        return await self.reservations(request)


def _place(settings: Mapping[str, Any]) -> str:
    """Return the zone or region of a quota's limit.

    Raises ValueError if the place is missing or of the wrong kind, such as a zone for a regional quota.
    """
    scope = parse_quota_id(settings["quota_id"]).scope
    place = settings.get(scope)
    known = accelerators.zones() if scope == "zone" else sorted({*map(accelerators.region_of, accelerators.zones())})
    if place is None:
        raise ValueError(f"{scope} is missing: {settings['quota_id']} counts per {scope}")
    if place not in known:
        raise ValueError(f"{place[:40]!r} is not a {scope} with TPUs; there are {', '.join(known)}")
    return str(place)
