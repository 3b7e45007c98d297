"""The part of the control API that is about the rules of the project, and about what takes its nodes away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.control.node_names import node_called
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
    """One method per route; each returns what is sent as JSON."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    async def project(self, _: web.Request) -> Any:
        return self._cloud.rules.project.switches.to_json()

    async def change_project(self, request: web.Request) -> Any:
        asked = await json_object(request)
        with self._cloud.store.transaction():
            switches = self._cloud.rules.project.change(asked)
        self._cloud.timeline.arm()
        return switches.to_json()

    async def quotas(self, _: web.Request) -> Any:
        """Those that are limited or used."""
        uses = self._cloud.rules.quotas.uses(self._cloud.held())
        return {"quotas": [use.to_json() for use in uses]}

    async def set_quota(self, request: web.Request) -> Any:
        """A limit in a zone or region, as the quota counts; null for no limit."""
        asked = fields.checked(await json_object(request), _QUOTA, required=("quota_id", "limit"))
        limit = UNLIMITED if asked["limit"] is None else asked["limit"]
        with self._cloud.store.transaction():
            self._cloud.rules.quotas.set_limit(asked["quota_id"], _place(asked), limit)
        self._cloud.timeline.arm()
        return await self.quotas(request)

    async def capacity(self, _: web.Request) -> Any:
        """Pools that somebody set; all others are unlimited."""
        return {"capacity": self._cloud.rules.capacity.uses(self._cloud.store.occupying_nodes())}

    async def set_capacity(self, request: web.Request) -> Any:
        asked = fields.checked(await json_object(request), _CAPACITY, required=("zone", "family"))
        if "chips" not in asked and "script" not in asked:
            raise ValueError("chips (null: unlimited) or a script is missing")
        with self._cloud.store.transaction():
            capacity.change(self._cloud.rules.capacity, asked)
        self._cloud.timeline.arm()
        return await self.capacity(request)

    async def stock_out(self, request: web.Request) -> Any:
        """No room, or only so many chips, in a zone for a while; ``for_s`` 0 ends it, none lasts until then."""
        asked = fields.checked(await json_object(request), _STOCKOUT, required=("zone",))
        with self._cloud.store.transaction():
            self._stock_out(asked)
        self._cloud.timeline.arm()
        return await self.capacity(request)

    def _stock_out(self, asked: Mapping[str, Any]) -> None:
        pools, zone, family = self._cloud.rules.capacity, asked["zone"], asked.get("family", "")
        chips, for_s = asked.get("chips", 0), asked.get("for_s")
        if not chips:
            pools.stock_out(zone, family, for_s)
            return
        for each in [family] if family else capacity.families_in(zone):
            pools.set_script(zone, each, [(0.0, chips)] if for_s is None else [(0.0, chips), (for_s, None)])

    async def preempt(self, request: web.Request) -> Any:
        """At once, or with `notice_s` seconds of notice to its workers."""
        asked = fields.checked(await json_object(request), _PREEMPT, required=("node",))
        node = node_called(self._cloud.store, asked["node"])
        if asked.get("notice_s"):
            self._cloud.notices.give(node, asked["notice_s"])
        else:
            await self._cloud.effects.preempt(node)
        self._cloud.timeline.arm()
        return {"node": node.name}

    async def maintenance(self, _: web.Request) -> Any:
        """What is planned or going on."""
        return {"maintenance": [event.to_json() for event in self._cloud.maintenance.events()]}

    async def announce_maintenance(self, request: web.Request) -> Any:
        asked = fields.checked(await json_object(request), _MAINTENANCE, required=("node",))
        node = node_called(self._cloud.store, asked["node"])
        with self._cloud.store.transaction():
            self._cloud.maintenance.announce(node, asked.get("kind", "SCHEDULED"), asked.get("in_s"))
        self._cloud.timeline.arm()
        return await self.maintenance(request)

    async def reservations(self, _: web.Request) -> Any:
        return {"reservations": self._cloud.rules.reservations.to_json()}

    async def set_reservation(self, request: web.Request) -> Any:
        """Make or change one; 0 chips take it away."""
        reservation = reservation_from_json(await json_object(request))
        with self._cloud.store.transaction():
            self._cloud.rules.reservations.set(reservation)
        return await self.reservations(request)


def _place(asked: Mapping[str, Any]) -> str:
    """The zone or region that a quota's limit is of. Raises ValueError when it is another kind of place, or none."""
    scope = parse_quota_id(asked["quota_id"]).scope
    place = asked.get(scope)
    known = accelerators.zones() if scope == "zone" else sorted({*map(accelerators.region_of, accelerators.zones())})
    if place is None:
        raise ValueError(f"{scope} is missing: {asked['quota_id']} counts per {scope}")
    if place not in known:
        raise ValueError(f"{place[:40]!r} is not a {scope} with TPUs; there are {', '.join(known)}")
    return str(place)
