"""The capacity of each zone, in chips per TPU generation: whether nodes fit, and when the capacity changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.limits.pools import Pool, pool_from_json, script
from jupyter_tpu.emulator.resources import fields
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.protos import NodePb
from jupyter_tpu.emulator.store.settings import Facts, StoredSetting

if TYPE_CHECKING:
    from jupyter_tpu.emulator.store.holdings import Held

FOR_EVER = float("inf")
_SEPARATOR = "/"


@assumed(
    "capacity",
    "All chips of a family in a zone form one pool for on-demand and spot nodes. A pool is unlimited until a "
    "test or a demo sets its size. Existing nodes are kept when their pool shrinks.",
)
class Capacity:
    """The pools of all zones. Their settings survive a restart."""

    def __init__(self, facts: Facts, now: Callable[[], float]) -> None:
        self._now = now
        self._setting = StoredSetting(facts, "project:capacity")
        self._pools = {key: pool_from_json(data) for key, data in (self._setting.read() or {}).items()}

    def has_room(self, nodes: Sequence[NodePb], zone: str, held: Iterable[Held]) -> bool:
        """Return whether a zone has enough chips for all of these new nodes together.

        `held` lists the nodes in all zones that occupy chips: nodes in the states from CREATING to READY, but no
        stopped or pre-empted nodes.
        """
        occupied = list(held)
        families = {family_of(node) for node in nodes}
        return all(self._has_room_in(family, nodes, zone, occupied) for family in families)

    def next_change(self, now: float) -> float | None:
        """Return when a script or a random walk next changes the size of a pool; None means never."""
        moments = [pool.next_change(now) for pool in self._pools.values()]
        return min((moment for moment in moments if moment is not None), default=None)

    def chips(self, zone: str, family: str) -> int | None:
        """Return the current number of chips of a family in a zone, including used ones; None means unlimited."""
        return self._pool(zone, family).chips(self._now())

    # -- settings from the control API; each method raises ValueError for an unknown zone or family

    def set_chips(self, zone: str, family: str, chips: int | None) -> None:
        """Set a fixed number of chips; None means unlimited. This replaces any script and ends any stock-out."""
        self.set_script(zone, family, [(0.0, chips)])

    def set_script(self, zone: str, family: str, after: Sequence[tuple[float, int | None]]) -> None:
        """Change the number of chips over time, in steps of (virtual seconds from now, chips)."""
        self._save(zone, family, Pool(steps=script(self._now(), after)))

    def set_seed(self, zone: str, family: str, chips: int, seed: int) -> None:
        """Change the number of chips to a random number from 0 to `chips` every ten minutes, determined by `seed`."""
        self._save(zone, family, Pool(seed=seed, most=chips))

    def stock_out(self, zone: str, family: str = "", for_s: float | None = None) -> None:
        """Reduce the capacity to 0 for `for_s` virtual seconds or until it is set again.

        Without a family, the stock-out applies to all families of the zone.
        """
        until = FOR_EVER if for_s is None else self._now() + for_s
        # keep the pool's other settings, so that they apply again when the stock-out ends
        for each in [family] if family else families_in(zone):
            self._save(zone, each, replace(self._pool(zone, each), stocked_out_until=until))

    def clear(self) -> None:
        """Make all pools unlimited again."""
        self._pools.clear()
        self._setting.delete()

    def uses(self, held: Iterable[Held]) -> list[dict[str, Any]]:
        """Return each configured pool as JSON for the control API; `held` has the same meaning as in `has_room`."""
        occupied = list(held)
        return [self._shown(key, occupied) for key in sorted(self._pools)]

    def _shown(self, key: str, occupied: Iterable[Held]) -> dict[str, Any]:
        zone, _, family = key.partition(_SEPARATOR)
        pool = self._pools[key]
        until = pool.stocked_out_until
        return {
            "zone": zone,
            "family": family,
            "chips": pool.chips(self._now()),
            # don't count reserved nodes, because they use chips of reservations
            "used": _chips_in_use(zone, family, occupied),
            "stocked_out": self._now() < until,
            "next_change": pool.next_change(self._now()),
            "seed": pool.seed,
            "script": [list(step) for step in pool.steps],
        }

    def _has_room_in(self, family: str, nodes: Iterable[NodePb], zone: str, occupied: Iterable[Held]) -> bool:
        limit = self.chips(zone, family)
        wanted = sum(chips_of(node) for node in nodes if family_of(node) == family)
        return limit is None or wanted + _chips_in_use(zone, family, occupied) <= limit

    def _pool(self, zone: str, family: str) -> Pool:
        return self._pools.get(f"{zone}{_SEPARATOR}{family}", Pool())

    def _save(self, zone: str, family: str, pool: Pool) -> None:
        if family not in families_in(zone):
            raise ValueError(f"{zone[:40]!r} has no chips of {family[:40]!r}")
        # also keep the pool in memory: every call checks the capacity, and parsing JSON each time would be slow
        self._pools[f"{zone}{_SEPARATOR}{family}"] = pool
        self._setting.write({key: each.to_json() for key, each in self._pools.items()})


def change(capacity: Capacity, settings: dict[str, Any]) -> None:
    """Apply a request from the control API: zone and family with ``chips``, ``script``, or ``chips`` and ``seed``.

    Raises ValueError, TypeError or KeyError if the request is invalid; the text gives the reason.
    """
    zone, family = fields.text(settings["zone"]), fields.text(settings["family"])
    if "script" in settings:
        capacity.set_script(zone, family, [step_of(each) for each in settings["script"]])
    elif settings.get("seed") is not None:
        capacity.set_seed(zone, family, fields.whole(settings["chips"]), fields.whole(settings["seed"]))
    else:
        capacity.set_chips(zone, family, chips_or_none(settings["chips"]))


def step_of(value: object) -> tuple[float, int | None]:
    """Parse one step of a capacity script: ``[seconds from now, chips]``."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{value!r} is not a pair of seconds and chips")
    return fields.amount(value[0]), chips_or_none(value[1])


def chips_or_none(value: object) -> int | None:
    """Parse a number of chips; None means unlimited."""
    return None if value is None else fields.whole(value)


def families_in(zone: str) -> tuple[str, ...]:
    """Return the generations that a zone offers. Raises ValueError for an unknown zone."""
    if zone not in accelerators.zones():
        raise ValueError(f"{zone[:40]!r} is not a zone with TPUs")
    return tuple(dict.fromkeys(accelerators.accelerator(name).generation for name in accelerators.types_in_zone(zone)))


def family_of(node: NodePb) -> str:
    """Return the generation of a node."""
    return accelerators.accelerator(node.accelerator_type).generation


def chips_of(node: NodePb) -> int:
    """Return the number of chips of a node."""
    return accelerators.accelerator(node.accelerator_type).chips


def _chips_in_use(zone: str, family: str, occupied: Iterable[Held]) -> int:
    return sum(
        chips_of(each.node) * each.count
        for each in occupied
        if each.zone == zone and family_of(each.node) == family and not each.node.scheduling_config.reserved
    )
