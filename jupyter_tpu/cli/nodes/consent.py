"""Who pays for what is about to be created, and the user's consent where nobody knows what it costs.

Zone, type and API are checked before anything is said of money, and grants before prices: a free node needs no price.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from jupyter_tpu.accelerators import price_on_terms
from jupyter_tpu.cli.terminal import is_confirmed
from jupyter_tpu.errors import BadInput
from jupyter_tpu.fleet.spend.grants import read_grant_book
from jupyter_tpu.lifecycle.words import terms
from jupyter_tpu.models import NodeSpec
from jupyter_tpu.money.coverage import Coverage, Request

if TYPE_CHECKING:
    from jupyter_tpu.cli.nodes.fleet_run import Work
    from jupyter_tpu.fleet.assembly import OpenFleet

_MOST_NAMED = 5


class UnknownPriceError(Exception):
    """These are offered, no grant pays for them, and no list has their price: the user is to be asked."""

    def __init__(self, specs: Iterable[NodeSpec]) -> None:
        super().__init__()
        self.specs = tuple(specs)


async def who_pays(work: Work | OpenFleet, spec: NodeSpec) -> Coverage:
    """By the grants, against the nodes that there are now.

    Raises:
        BadInput: the cloud offers no such node.
        CloudUnavailable, CloudRefused: it would not say.
    """
    await work.fleet.check_offered(spec)
    book = await read_grant_book(work.journal, work.settings, await work.fleet.refresh())
    return book.coverage(_request(spec))


async def require_known_price(options: argparse.Namespace, work: Work | OpenFleet, specs: Iterable[NodeSpec]) -> None:
    """Let the user be asked about those of unknown cost, unless they accepted that before.

    Of several, those that the cloud does not offer are passed over: a search tells of each as it tries it.

    Raises:
        UnknownPriceError: there are some.
        BadInput, CloudUnavailable, CloudRefused: see `Fleet.check_offered`.
    """
    wanted = tuple(specs)
    if options.yes or options.accept_unknown_price or all(map(_has_price, wanted)):
        return
    offered = [spec for spec in wanted if not _has_price(spec) and await _is_offered(work, spec, len(wanted) == 1)]
    book = await read_grant_book(work.journal, work.settings, await work.fleet.refresh())
    unknown = [spec for spec in offered if not book.coverage(_request(spec)).is_covered]
    if unknown:
        raise UnknownPriceError(unknown)


async def _is_offered(work: Work | OpenFleet, spec: NodeSpec, is_only_one: bool) -> bool:
    try:
        await work.fleet.check_offered(spec)
    except BadInput:
        if is_only_one:
            raise
        return False
    return True


def accept_unknown_price(options: argparse.Namespace, unknown: UnknownPriceError, verb: str) -> None:
    """Ask the user, outside any event loop; `verb` is what they would say yes to.

    Raises:
        BadInput: nobody said yes.
    """
    named = ", ".join(dict.fromkeys(terms(spec) for spec in unknown.specs[:_MOST_NAMED]))
    more = f" and {len(unknown.specs) - _MOST_NAMED} more" if len(unknown.specs) > _MOST_NAMED else ""
    problem = f"There is no list price for {named}{more}, and no grant covers it."
    if not is_confirmed(f"{problem} {verb} anyway?"):
        raise BadInput(problem, exists="Nothing was created.", hint=f"Add --yes to {verb.lower()} anyway.")
    options.accept_unknown_price = True


def _has_price(spec: NodeSpec) -> bool:
    return price_on_terms(spec.accelerator_type, spec.name.zone, spec.provisioning) is not None


def _request(spec: NodeSpec) -> Request:
    return Request(accelerator_type=spec.accelerator_type, zone=spec.name.zone, provisioning=spec.provisioning)
