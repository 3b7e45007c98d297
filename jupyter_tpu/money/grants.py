"""Grants: TPU chips granted by the TPU Research Cloud (TRC), and credits in US dollars.

The user enters all values, because no public API reports granted or remaining amounts. The values are validated. A
grant is valid from the start of its first day to the end of its last day, in UTC.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.accelerators import find_accelerator, generations, region_of, zones, zones_for
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.money.days import began_at, day_number, day_text

# Limits that reject typos and huge request bodies. Known TRC grants have a few hundred chips per row, six rows and up
# to 180 days. The longest valid term is ten years.
MOST_CHIPS = 1_000_000
MOST_ROWS = 100
MOST_DAYS = 3660
_MOST_USD = 10_000_000.0
_NOTHING = "Nothing was saved."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z0-9]{1,8}")
_KINDS = ("trc", "credit")
_FIELDS = ("kind", "starts_on", "days", "ends_on", "rows", "usd")
_ROW_FIELDS = ("chips", "generation", "spot", "zone", "device")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """A row of a TRC grant: a number of chips of one generation in one zone.

    Attributes:
        spot: whether the chips are for spot and preemptible nodes.
        device: the only accelerator type that the row covers, such as ``v2-8``; empty if the row covers all sizes.
    """

    chips: int
    generation: str
    spot: bool
    zone: str
    device: str = ""

    @property
    def what(self) -> tuple[str, bool, str, str]:
        """The generation, spot flag, zone and device: everything that the row specifies except the number of chips."""
        return (self.generation, self.spot, self.zone, self.device)

    def to_json(self) -> dict[str, Any]:
        """Return the row for the REST API and the journal."""
        return {
            "chips": self.chips,
            "generation": self.generation,
            "spot": self.spot,
            "zone": self.zone,
            "device": self.device or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A grant; create one with `grant_from_json`, which validates it.

    Attributes:
        kind: ``trc`` for rows of chips, ``credit`` for an amount in `usd`.
        first_day, last_day: day numbers, see `jupyter_tpu.money.days`; the grant is valid on both days.
    """

    name: str
    kind: str
    first_day: int
    last_day: int
    rows: tuple[GrantRow, ...] = ()
    usd: float | None = None

    @property
    def starts_on(self) -> str:
        """The first day of the grant as ``YYYY-MM-DD``."""
        return day_text(self.first_day)

    @property
    def ends_on(self) -> str:
        """The last day of the grant as ``YYYY-MM-DD``."""
        return day_text(self.last_day)

    @property
    def starts_at(self) -> float:
        """When the grant's first day begins (Unix seconds)."""
        return began_at(self.first_day)

    def days_left(self, today: int) -> int:
        """Return the number of remaining days, including today. Before the grant starts, all its days remain."""
        return max(0, self.last_day - max(today, self.first_day) + 1)

    def is_over(self, today: int) -> bool:
        """Return whether the grant's last day has passed."""
        return today > self.last_day

    def holds(self, today: int) -> bool:
        """Return whether the grant is valid on a day."""
        return self.first_day <= today <= self.last_day

    def to_json(self) -> dict[str, Any]:
        """Return all fields except the name, for the REST API and the journal."""
        return {
            "kind": self.kind,
            "starts_on": self.starts_on,
            "ends_on": self.ends_on,
            "rows": [row.to_json() for row in self.rows],
            "usd": self.usd,
        }


def checked_name(name: str) -> str:
    """Return a grant's name if it is valid.

    Raises:
        BadInput: the name is invalid.
    """
    if not _NAME.fullmatch(name):
        raise _bad(
            Text("{name} is not a valid grant name.", name=repr(name[:70])),
            "Use up to 63 letters, digits, dots, hyphens and underscores, and start with a letter or digit.",
        )
    return name


def grant_from_json(name: str, data: Mapping[str, Any]) -> Grant:
    """Parse a grant from a request body or the journal; its term is specified by ``ends_on`` or ``days``.

    Raises:
        BadInput: a field is missing, unknown or invalid; the message names it and explains why.
    """
    _refuse_unknown(data, _FIELDS, "grant")
    kind = data.get("kind")
    if kind not in _KINDS:
        raise _bad(
            Text("{kind} is not a kind of grant.", kind=repr(str(kind)[:40])),
            Text("Use one of {kinds}.", kinds=", ".join(_KINDS)),
        )
    first_day = day_number(data.get("starts_on"), "first day of a grant")
    return Grant(
        name=checked_name(name),
        kind=kind,
        first_day=first_day,
        last_day=_last_day(first_day, data),
        rows=_rows(kind, data.get("rows") or ()),
        usd=_usd(kind, data.get("usd")),
    )


def row_from_json(data: Any) -> GrantRow:
    """Parse one row of a grant.

    Raises:
        BadInput: a field is missing, unknown or invalid; the message names it and explains why.
    """
    if not isinstance(data, Mapping):
        raise _bad(
            "A row of the grant is not an object.",
            Text("Send an object with the fields {fields}.", fields=", ".join(_ROW_FIELDS)),
        )
    _refuse_unknown(data, _ROW_FIELDS, "row")
    generation, zone, spot = data.get("generation"), data.get("zone"), data.get("spot", False)
    if not isinstance(spot, bool):
        raise _bad(
            "The field 'spot' of a row must be true or false.",
            "Send true for spot and preemptible nodes, and false for on-demand nodes.",
        )
    return GrantRow(
        chips=_chips(data.get("chips")),
        generation=_generation(generation),
        spot=spot,
        zone=_zone(zone, str(generation)),
        device=_device(data.get("device") or "", str(generation)),
    )


def _last_day(first_day: int, data: Mapping[str, Any]) -> int:
    days, ends_on = data.get("days"), data.get("ends_on")
    if (days is None) == (ends_on is None):
        raise _bad("A grant has either a last day or a number of days.", "Send either 'ends_on' or 'days'.")
    last_day = first_day + _days(days) - 1 if ends_on is None else day_number(ends_on, "last day of a grant")
    if last_day < first_day:
        raise _bad("The grant ends before it starts.", "Send a last day that is not before the first day.")
    if last_day - first_day >= MOST_DAYS:
        raise _bad("The grant is longer than ten years.", "Check the year of its last day.")
    day_number(day_text(last_day), "last day of a grant")  # a term in days may go beyond the last valid year
    return last_day


def _days(days: Any) -> int:
    if not _is_whole(days) or not 1 <= days <= MOST_DAYS:
        raise _bad(
            Text("{days} is not a valid number of days.", days=repr(str(days)[:40])),
            Text("Use a whole number from 1 to {most}.", most=MOST_DAYS),
        )
    return int(days)


def _rows(kind: str, listed: Any) -> tuple[GrantRow, ...]:
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise _bad(
            "The field 'rows' is not a list.",
            Text("Send a list of objects with {fields}.", fields=", ".join(_ROW_FIELDS)),
        )
    if kind == "credit":
        if listed:
            raise _bad(
                "A credit has an amount of money, and no rows of chips.",
                "Send 'usd' instead of 'rows', or use the kind 'trc'.",
            )
        return ()
    if not 1 <= len(listed) <= MOST_ROWS:
        raise _bad(
            "A TRC grant needs rows of chips.", Text("Send 1 to {most} rows, or use the kind 'credit'.", most=MOST_ROWS)
        )
    rows = tuple(row_from_json(each) for each in listed)
    if len({row.what for row in rows}) < len(rows):
        raise _bad(
            "The grant has two rows for the same chips.",
            "Send one row with the sum of the chips, or leave one row out.",
        )
    return rows


def _usd(kind: str, usd: Any) -> float | None:
    if kind == "trc":
        if usd is not None:
            raise _bad(
                "A TRC grant has rows of chips, and no amount of money.",
                "Send 'rows' instead of 'usd', or use the kind 'credit'.",
            )
        return None
    if isinstance(usd, bool) or not isinstance(usd, int | float) or math.isnan(_as_float(usd)):
        raise _bad(
            "The amount of the credit is missing or is not a number.",
            "Send the amount in US dollars in the field 'usd'.",
        )
    if not 0 < usd <= _MOST_USD:
        raise _bad(
            Text("{usd} is not a valid amount for a credit.", usd=f"{_as_float(usd):g}"),
            Text("Use more than 0 and at most {most} US dollars.", most=f"{_MOST_USD:,.0f}"),
        )
    return float(usd)


def _as_float(number: float) -> float:
    """Convert to float; an integer outside the float range, which JSON allows, becomes infinity."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _chips(chips: Any) -> int:
    if not _is_whole(chips) or not 1 <= chips <= MOST_CHIPS:
        raise _bad(
            Text("{chips} is not a number of chips.", chips=repr(str(chips)[:40])),
            Text("Use a whole number from 1 to {most}.", most=MOST_CHIPS),
        )
    return int(chips)


def _generation(generation: Any) -> str:
    if generation not in generations():
        known = ", ".join(generations())
        raise _bad(
            Text("{generation} is not a TPU generation that can be granted.", generation=repr(str(generation)[:40])),
            Text("Use one of {generations}.", generations=known),
        )
    return str(generation)


def _zone(zone: Any, generation: str) -> str:
    """Check a zone and return it.

    Only the zone's region must be known, because TRC has granted v2 in us-central1-f, a zone that the catalogue lacks.
    """
    if isinstance(zone, str) and _ZONE.fullmatch(zone) and region_of(zone) in {region_of(each) for each in zones()}:
        return zone
    offering = ", ".join(zones_for(generation))
    raise _bad(
        Text("{zone} is not a Cloud TPU zone.", zone=repr(str(zone)[:40])),
        Text("Use a zone that offers {generation}: {zones}.", generation=generation, zones=offering),
    )


def _device(device: Any, generation: str) -> str:
    kind = find_accelerator(device) if isinstance(device, str) else None
    if device and (kind is None or kind.generation != generation):
        raise _bad(
            Text(
                "{device} is not an accelerator type of {generation}.",
                device=repr(str(device)[:40]),
                generation=generation,
            ),
            "Leave out the field 'device' if nodes of any size are granted.",
        )
    return kind.type if kind else ""  # use the API's spelling (v5litepod-8, not v5e-8), so that nodes match it


def _refuse_unknown(data: Mapping[str, Any], fields: tuple[str, ...], what: str) -> None:
    unknown = sorted(str(name) for name in set(data) - set(fields))
    if unknown:
        shown = ", ".join(repr(name[:40]) for name in unknown[:5])
        raise _bad(
            Text("The {what} has unknown fields: {unknown}.", what=what, unknown=shown),
            Text("Send only {fields}.", fields=", ".join(fields)),
        )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _bad(message: str, hint: str) -> BadInput:
    return BadInput(message, exists=_NOTHING, hint=hint)
