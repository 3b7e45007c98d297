"""Determine who pays for a node before it is created: a grant or the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.accelerators import Accelerator, find_accelerator, price_on_terms
from jupyter_tpu.errors import Text, joined, templates_of
from jupyter_tpu.models import Price
from jupyter_tpu.money.allotment import Allotment, is_for
from jupyter_tpu.money.days import day_of
from jupyter_tpu.money.grants import Grant
from jupyter_tpu.provisioning import Provisioning, can_be_preempted, is_grantable

NEVER_COVERED = (
    Text("the boot disk of each TPU VM and other disks, even while the node is stopped"),
    Text("external IP addresses"),
    Text("data that leaves its region (egress), such as reading a bucket in another region"),
    Text("all other services of Google Cloud, such as Cloud Storage and Compute Engine"),
)
"""Costs that no TRC grant covers.

Source: "you'll still be charged for the rest of the GCP services you use" (TRC email, 2026).
"""

# The text is one line in a form. It gives the reasons for at most this many grants and only the number of the other
# grants.
_MOST_REASONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """The properties of a new node that determine who pays for it."""

    accelerator_type: str
    zone: str
    provisioning: Provisioning = "on-demand"

    @property
    def spot(self) -> bool:
        """Whether the node is spot or preemptible. TRC's emails use both words with the same meaning."""
        return can_be_preempted(self.provisioning)

    @property
    def is_reserved(self) -> bool:
        """Whether the node uses chips of a reservation."""
        return self.provisioning == "reserved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Who pays for a node's chips: a grant or the user.

    Attributes:
        grant: the name of the grant that covers the node; None if the user pays.
        price: the list price, even if a grant pays; None if it is unknown, which doesn't mean that the node is free.
        text: one line for the user, shown before the node is created.
        until: the last day of the grant that covers the node, such as ``2027-01-29``; None if the user pays.
        detail: why no grant covers the node, and which credit may cover it; may be empty.
    """

    grant: str | None
    price: Price | None
    text: str
    until: str | None = None
    detail: str = ""

    @property
    def is_covered(self) -> bool:
        """Whether a grant pays for the node."""
        return self.grant is not None

    def to_json(self) -> dict[str, Any]:
        """Return the body of ``GET coverage``."""
        return {
            "covered": self.is_covered,
            "grant": self.grant,
            "until": self.until,
            "detail": self.detail,
            "usd_per_hour": self.price.usd_per_hour if self.price else None,
            "text": self.text,
            "not_covered": list(NEVER_COVERED),
            **templates_of({"text": self.text, "detail": self.detail}),
        }


def coverage(
    request: NodeRequest, grants: Iterable[Grant], allotment: Allotment, *, now: float, left: Mapping[str, float | None]
) -> Coverage:
    """Return who pays for the node: the last-expiring of the grants that cover the whole node now, or else the user.

    Args:
        allotment: the current nodes' usage of these grants.
        now: the current time (Unix seconds).
        left: the remaining amount of each credit in US dollars, by the credit's name; None if unknown.
    """
    today, known = day_of(now), tuple(grants)
    # a TRC grant makes the node free; a credit only pays the bill, so it is mentioned only if no grant covers the node
    trc = [grant for grant in known if grant.kind == "trc"]
    reasons = {grant.name: _why_not(request, grant, allotment, today) for grant in trc}
    paying = [grant for grant in trc if not reasons[grant.name]]
    price = price_on_terms(request.accelerator_type, request.zone, request.provisioning)
    if paying:
        longest = max(paying, key=lambda grant: grant.last_day)
        return Coverage(grant=longest.name, price=price, text=_free(longest, price), until=longest.ends_on)
    credits = [grant for grant in known if grant.kind == "credit" and grant.holds(today)]
    why, credit = _reasons(list(reasons.values())), _credit(credits, left)
    text = _billed(request, price, why, credit)
    return Coverage(grant=None, price=price, text=text, detail=joined(filter(None, [why, credit]), "; "))


def _free(grant: Grant, price: Price | None) -> str:
    return Text(
        "free under your TRC grant {name} until {ends_on}, then billed: {price}",
        name=grant.name,
        ends_on=grant.ends_on,
        price=_price(price),
    )


def _billed(request: NodeRequest, price: Price | None, why: str, credit: str) -> str:
    cost = (
        Text("with your reservation, whether you use it or not (no list price)")
        if request.is_reserved
        else _price(price)
    )
    why, credit = why and Text(" ({why})", why=why), credit and Text("; {credit}", credit=credit)
    return Text("billed: {cost}{why}{credit}", cost=cost, why=why, credit=credit)


def _reasons(reasons: list[str]) -> str:
    more = (
        [Text("{count} other grants do not cover it", count=len(reasons) - _MOST_REASONS)]
        if len(reasons) > _MOST_REASONS
        else []
    )
    return joined([*reasons[:_MOST_REASONS], *more], "; ")


def _price(price: Price | None) -> str:
    return f"${price.usd_per_hour:.2f}/h" if price else Text("price unknown")


def _credit(credits: list[Grant], left: Mapping[str, float | None]) -> str:
    """Describe the credit that may pay for the node: of those that may have money left, the first to expire."""
    for grant in sorted(credits, key=lambda grant: grant.last_day):
        amount = left.get(grant.name)
        if amount is None:
            return Text(
                "your credit {name} may pay for the node until {ends_on} (remaining amount unknown)",
                name=grant.name,
                ends_on=grant.ends_on,
            )
        if amount > 0:
            return Text(
                "your credit {name} has about ${amount} left until {ends_on}",
                name=grant.name,
                amount=f"{amount:.2f}",
                ends_on=grant.ends_on,
            )
    return ""


def _why_not(request: NodeRequest, grant: Grant, allotment: Allotment, today: int) -> str:
    """Return why a grant does not cover the node, or "" if it does."""
    if grant.is_over(today):
        return Text("your TRC grant {name} ended on {ends_on}", name=grant.name, ends_on=grant.ends_on)
    if not grant.holds(today):
        return Text("your TRC grant {name} starts on {starts_on}", name=grant.name, starts_on=grant.starts_on)
    if not is_grantable(request.provisioning):
        return Text(
            "your TRC grant {name} does not cover {provisioning} nodes",
            name=grant.name,
            provisioning=request.provisioning,
        )
    kind = find_accelerator(request.accelerator_type)
    if kind is None:
        return Text("the number of chips of {type} is unknown", type=request.accelerator_type[:40])
    fitting = [
        number
        for number, row in enumerate(grant.rows)
        if is_for(row, request.accelerator_type, request.zone, request.spot)
    ]
    return _why_no_room(kind, grant, allotment, fitting) if fitting else _why_no_row(request, kind, grant)


def _why_no_room(kind: Accelerator, grant: Grant, allotment: Allotment, fitting: list[int]) -> str:
    free = [allotment.free_of(grant, number) for number in fitting]
    if any(chips is not None and chips >= kind.chips for chips in free):
        return ""
    for number, chips in zip(fitting, free, strict=True):
        if chips is None:
            why = allotment.unknown[grant.name, number]
            return Text("the number of free chips of your TRC grant {name} is unknown: {why}", name=grant.name, why=why)
    most = max(chips for chips in free if chips is not None)
    template = Text("your TRC grant {name} has {most} chips free there, but the node needs {chips}")
    if most == 1:
        template = Text("your TRC grant {name} has 1 chip free there, but the node needs {chips}")
    return template.with_arguments(name=grant.name, most=most, chips=kind.chips)


def _why_no_row(request: NodeRequest, kind: Accelerator, grant: Grant) -> str:
    # name the first thing that differs, from the coarsest to the finest: generation, zone, model, accelerator type
    covers = Text("your TRC grant {name} covers", name=grant.name)
    same = [row for row in grant.rows if row.generation == kind.generation]
    if not same:
        return Text("{covers} no {generation}", covers=covers, generation=kind.generation)
    here = [row for row in same if row.zone == request.zone]
    if not here:
        return Text(
            "{covers} {generation} only in {zones}",
            covers=covers,
            generation=kind.generation,
            zones=", ".join(sorted({row.zone for row in same})),
        )
    if all(row.spot != request.spot for row in here):
        if request.spot:
            return Text("{covers} {generation} there only on demand", covers=covers, generation=kind.generation)
        return Text("{covers} {generation} there only as spot", covers=covers, generation=kind.generation)
    devices = sorted({row.device for row in here if row.spot == request.spot})
    return Text("{covers} only nodes of type {devices} there", covers=covers, devices=", ".join(devices))
