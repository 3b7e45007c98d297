"""Determine who pays for a new node, and ask for the user's consent if its price is unknown.

Zone, type and API are checked first, then grants and finally prices, because a free node needs no price.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_tpu.accelerators import price_on_terms
from jupyter_tpu.cli.terminal import is_confirmed
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.fleet.spend.grant_usage import read_grant_usage
from jupyter_tpu.i18n import _
from jupyter_tpu.lifecycle.intent_texts import terms
from jupyter_tpu.models import NodeSpec
from jupyter_tpu.money.coverage import Coverage, NodeRequest

if TYPE_CHECKING:
    from jupyter_tpu.cli.nodes.fleet_run import RunningFleet
    from jupyter_tpu.fleet.assembly import OpenFleet

T = TypeVar("T")

_MOST_NAMED = 5  # keeps the prompt readable: a search may have dozens of candidates


class UnknownPriceError(Exception):
    """The error for nodes that have an unknown price and that no grant covers. The caller then asks the user.

    Attributes:
        specs: the nodes with an unknown price.
    """

    def __init__(self, specs: Iterable[NodeSpec]) -> None:
        super().__init__()
        self.specs = tuple(specs)


async def who_pays(work: RunningFleet | OpenFleet, spec: NodeSpec) -> Coverage:
    """Return who pays for the node: a grant or the user.

    The chips that existing nodes use under a grant are not available to the new node.

    Raises:
        BadInput: the cloud offers no such node.
        CloudUnavailable, CloudRefused: the offers couldn't be read.
    """
    await work.fleet.check_offered(spec)
    book = await read_grant_usage(work.journal, work.settings, await work.fleet.refresh())
    return book.coverage(_request(spec))


async def require_known_price(
    options: argparse.Namespace, work: RunningFleet | OpenFleet, specs: Iterable[NodeSpec]
) -> None:
    """Check that each node has a known price or is covered by a grant, or that the user accepts an unknown price.

    If there are several nodes, skip nodes that the cloud doesn't offer, because the search reports them later.

    Raises:
        UnknownPriceError: the price of some nodes is unknown; ask the user about them.
        BadInput, CloudUnavailable, CloudRefused: see `Fleet.check_offered`.
    """
    wanted = tuple(specs)
    # if all prices are known, as usual, no request to the cloud is needed
    if options.yes or options.accept_unknown_price or all(map(_has_price, wanted)):
        return
    offered = [spec for spec in wanted if not _has_price(spec) and await _is_offered(work, spec, len(wanted) == 1)]
    book = await read_grant_usage(work.journal, work.settings, await work.fleet.refresh())
    unknown = [spec for spec in offered if not book.coverage(_request(spec)).is_covered]
    if unknown:
        raise UnknownPriceError(unknown)


async def _is_offered(work: RunningFleet | OpenFleet, spec: NodeSpec, is_only_one: bool) -> bool:
    try:
        await work.fleet.check_offered(spec)
    except BadInput:
        if is_only_one:
            raise
        return False
    return True


def run_with_consent(options: argparse.Namespace, question: str, request: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a request that uses `require_known_price`; if a price is unknown, ask the user and run it again.

    Args:
        options: the command's options; `accept_unknown_price` is set if the user agrees.
        question: the question to the user, such as "Create it anyway?".

    Raises:
        BadInput: the user declined.
    """
    try:
        return asyncio.run(request())
    except UnknownPriceError as unknown:
        # the prompt can't run in the event loop: close the fleet, ask, and start again
        _ask_to_accept(unknown, question)
    options.accept_unknown_price = True
    return asyncio.run(request())


def _ask_to_accept(unknown: UnknownPriceError, question: str) -> None:
    named = ", ".join(dict.fromkeys(terms(spec) for spec in unknown.specs[:_MOST_NAMED]))
    more = _(" and {count} more", count=len(unknown.specs) - _MOST_NAMED) if len(unknown.specs) > _MOST_NAMED else ""
    problem = Text("There is no list price for {named}{more}, and no grant covers it.", named=named, more=more)
    if not is_confirmed(f"{_(problem)} {question}"):
        raise BadInput(problem, exists="Nothing was created.", hint="Add --yes to accept an unknown price.")


def _has_price(spec: NodeSpec) -> bool:
    return price_on_terms(spec.accelerator_type, spec.name.zone, spec.provisioning) is not None


def _request(spec: NodeSpec) -> NodeRequest:
    return NodeRequest(accelerator_type=spec.accelerator_type, zone=spec.name.zone, provisioning=spec.provisioning)
