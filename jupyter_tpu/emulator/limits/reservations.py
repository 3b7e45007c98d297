"""Reservations: capacity reserved for the project, listed by v2alpha1 and used by nodes that request it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from google.cloud import tpu_v2alpha1
from google.protobuf.message import Message
from google.rpc import status_pb2

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.limits.capacity import chips_of, families_in, family_of
from jupyter_tpu.emulator.resources import fields, operation_errors, paging
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.resources.names import Location, last_part, parse_location
from jupyter_tpu.emulator.resources.protos import NodePb
from jupyter_tpu.emulator.store.settings import Facts, StoredSetting

if TYPE_CHECKING:
    from jupyter_tpu.emulator.store.holdings import Held

_ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_ACTIVE = tpu_v2alpha1.Reservation.State.ACTIVE
_CHIPS = tpu_v2alpha1.Reservation.Standard.CapacityUnits.CHIPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Reserved chips of one family in one zone."""

    reservation_id: str
    zone: str
    family: str
    chips: int

    def to_json(self) -> dict[str, Any]:
        """Return the reservation as it is stored."""
        return asdict(self)


def reservation_from_json(data: dict[str, Any]) -> Reservation:
    """Parse a reservation; raises ValueError or KeyError if it is invalid."""
    zone, family = fields.text(data["zone"]), fields.text(data["family"])
    if family not in families_in(zone):
        raise ValueError(f"{zone[:40]!r} has no chips of {family[:40]!r}")
    reservation_id = fields.text(data["reservation_id"])
    if not _ID.fullmatch(reservation_id):
        raise ValueError(f"{reservation_id[:80]!r} is not an id: lower-case letters, digits and hyphens")
    return Reservation(reservation_id=reservation_id, zone=zone, family=family, chips=fields.whole(data["chips"]))


class Reservations:
    """The reservations of the project. A new project has none; the control API creates them."""

    def __init__(self, facts: Facts) -> None:
        self._setting = StoredSetting(facts, "project:reservations")
        rows = self._setting.read() or []
        self._by_id = {row["reservation_id"]: reservation_from_json(row) for row in rows}

    def set(self, reservation: Reservation) -> None:
        """Create or change a reservation; delete it if it has 0 chips."""
        self._by_id[reservation.reservation_id] = reservation
        if not reservation.chips:
            del self._by_id[reservation.reservation_id]
        self._setting.write(self.to_json())

    def clear(self) -> None:
        """Delete all reservations."""
        self._by_id.clear()
        self._setting.delete()

    def to_json(self) -> list[dict[str, Any]]:
        """Return all reservations as they are stored."""
        return [each.to_json() for each in self._by_id.values()]

    @assumed(
        "reserved-nodes",
        "A reserved node uses chips of the named reservation, or of any reservation of its family in its zone. A "
        "hyphen, which gcloud sends, means any reservation.",
    )
    def verdict(
        self, nodes: Sequence[NodePb], zone: str, held: Iterable[Held], *, name: str = "", is_queued: bool = False
    ) -> status_pb2.Status | None:
        """Return an error if the reservation has too few chips for these new nodes, or None.

        Args:
            held: the nodes that occupy chips, as for `Capacity.has_room`.
            name: full name or id of the reservation; empty for any.
        """
        family = family_of(nodes[0])
        reserved = [each for each in self._by_id.values() if _fits(each, zone, family, last_part(name))]
        if not reserved:
            return operation_errors.reservation_not_found()
        wanted = sum(map(chips_of, nodes)) + _reserved_in_use(zone, family, held)
        has_room = wanted <= sum(each.chips for each in reserved)
        return None if has_room else operation_errors.reserved_capacity_short(is_queued=is_queued)

    @documented(
        "list-reservations",
        "v2alpha1 lists reservations with their state, size, unit, resource type and use.",
        source="google-cloud-tpu, v2alpha1.Reservation",
    )
    def list_reservations(self, request: Any, held: Iterable[Held]) -> Message:
        """Handle ``ListReservations`` of v2alpha1: return one page of reservations, sorted by id."""
        location = parse_location(request.parent, "parent")
        occupied = list(held)
        found = [each for each in self._by_id.values() if location.is_wildcard or each.zone == location.zone]
        by_id = sorted(found, key=_id_of)
        page, token = paging.page_of(by_id, _id_of, request.page_size, request.page_token)
        shown = [_shown(each, location, occupied) for each in page]
        return tpu_v2alpha1.ListReservationsResponse.pb()(reservations=shown, next_page_token=token)


def _fits(reservation: Reservation, zone: str, family: str, wanted_id: str) -> bool:
    is_named = wanted_id in ("", "-", reservation.reservation_id)
    return is_named and (reservation.zone, reservation.family) == (zone, family)


def _reserved_in_use(zone: str, family: str, held: Iterable[Held]) -> int:
    return sum(
        chips_of(each.node) * each.count
        for each in held
        if each.node.scheduling_config.reserved and each.zone == zone and family_of(each.node) == family
    )


def _id_of(reservation: Reservation) -> str:
    return reservation.reservation_id


def _shown(reservation: Reservation, location: Location, occupied: Iterable[Held]) -> Any:
    parent = Location(location.project, reservation.zone)
    shown = tpu_v2alpha1.Reservation.pb()(
        name=f"{parent}/reservations/{reservation.reservation_id}",
        state=_ACTIVE,
    )
    shown.standard.size = reservation.chips
    shown.standard.capacity_units = _CHIPS
    shown.standard.resource_type = resource_type(reservation.family)
    # a reservation may be reduced below the chips that its nodes use; the nodes continue to run
    shown.standard.usage.total = min(
        reservation.chips, _reserved_in_use(reservation.zone, reservation.family, occupied)
    )
    return shown


def resource_type(family: str) -> str:
    """Return the API's name of a family, such as ``V5LITE_POD``."""
    return accelerators.generation_facts(family).api_type
