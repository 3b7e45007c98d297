"""The command `search`: try zones and accelerator types one by one until a node is READY.

The search is in the journal, so if this process is killed, another `jupyter tpu` or a Jupyter server continues it.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from jupyter_tpu import accelerators
from jupyter_tpu.cli.node_texts import EMULATED, costs_text, terms_text
from jupyter_tpu.cli.nodes.consent import require_known_price, run_with_consent
from jupyter_tpu.cli.nodes.fleet_run import SIGINT_EXIT
from jupyter_tpu.cli.options import (
    chosen_runtime_version,
    cloud_settings,
    node_options,
    provisioning_at_once,
    types_hint,
)
from jupyter_tpu.cli.terminal import echo, echo_json, echo_table, note, note_do, plain, warn
from jupyter_tpu.errors import BadInput, OutOfCapacity, Text, TpuError, WrongState, joined
from jupyter_tpu.fleet.capacity.views import search_view, searches_view
from jupyter_tpu.i18n import _
from jupyter_tpu.lifecycle.search_state import Candidate, Search, Try
from jupyter_tpu.models import NodeName
from jupyter_tpu.provisioning import flags_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_tpu.fleet.assembly import OpenFleet


_HEADER = ("NODE", "PHASE", "TRIED", "MESSAGE", "ID")
_OUTCOMES = {
    "won": "READY",
    "quota": Text("quota used up (see `jupyter tpu quota`); not tried again"),
    "stockout": Text("no capacity"),
    "not_allowed": Text("not available to the project; not tried again"),
    "address": Text("no external IP address left (with --internal-ips, none is needed); not tried again"),
    "other": Text("failed"),
}


def run_search(options: argparse.Namespace) -> int:
    """Search for capacity, cancel a search, or list the searches."""
    if options.cancel:
        return _show_cancelled(options, asyncio.run(_cancelled(options, options.cancel)))
    if not options.node:
        return _list(options)
    wanted = _candidates(options)
    begun = list[Search]()
    try:
        search = run_with_consent(options, _("Search anyway?"), lambda: _searched(options, wanted, options.for_, begun))
    except KeyboardInterrupt:
        return _interrupted(options, begun)
    return _show_end(options, search)


def _candidates(options: argparse.Namespace) -> tuple[Candidate, ...]:
    """Return each combination of type and zone. If no zones are given, use all zones that offer the type."""
    types = [accelerators.accelerator(name) for name in _names(options.types)]
    if not types:
        raise BadInput(
            "A search requires --types.",
            exists="No request was sent to the cloud.",
            hint=types_hint("--types"),
        )
    provisioning = provisioning_at_once(options)
    wanted = tuple(
        Candidate(
            zone=zone,
            accelerator_type=kind.type,
            runtime_version=chosen_runtime_version(options, kind),
            **flags_of(provisioning),
            options=node_options(options),
        )
        for kind in types
        for zone in _names(options.zones) or accelerators.zones_for_type(kind.type)
    )
    for each in wanted:
        NodeName(project="any-project", zone=each.zone, node_id=options.node)  # rejects an invalid name or zone
    return wanted


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


async def _searched(
    options: argparse.Namespace, wanted: Iterable[Candidate], for_s: float | None, begun: list[Search]
) -> Search:
    """Run the search and return it when finished; set `begun` once the search is saved and can be cancelled."""
    from jupyter_tpu.fleet.assembly import open_fleet
    from jupyter_tpu.fleet.capacity.ranking import rank_by_cost

    async with open_fleet(cloud_settings(options), ssh_user=options.ssh_user) as opened:
        # ask for consent before the first attempt: a search can take long, and the user may walk away
        specs = [each.spec(opened.settings.project, options.node) for each in wanted]
        await require_known_price(options, opened, specs)
        # include grants: a more expensive type costs this user less if a grant covers it
        order = await rank_by_cost(opened.fleet, opened.journal, opened.settings, wanted)
        search = await opened.searches.begin(
            options.node, order, for_s=for_s, accept_unknown_price=options.accept_unknown_price
        )
        begun.append(search)
        search = await _watched(opened, search)
        if search.phase == "found":
            await _write_kernelspec(options, opened, search)
    return search


async def _watched(opened: OpenFleet, search: Search) -> Search:
    """Print the start and result of each attempt; return the finished search."""
    shown: set[tuple[float, str]] = set()
    message = ""
    async for now in opened.searches.watch(search.search_id):
        for tried in now.tries:
            # every state of a search contains all attempts: print only the new ones
            if (tried.at, tried.outcome) not in shown:
                shown.add((tried.at, tried.outcome))
                note(_try_text(now, tried))
        if now.round and now.message != message and not now.has_ended:
            note(plain(_(now.message)))
        search, message = now, now.message
    return search


def _try_text(search: Search, tried: Try) -> str:
    of = search.candidates[tried.index]
    terms = "" if of.provisioning == "on-demand" else f"{of.provisioning}, "
    price = terms_text(of.accelerator_type, of.zone, of.provisioning)
    what = _("{type} in {zone} ({terms})", type=of.accelerator_type, zone=of.zone, terms=f"{terms}{price}")
    if tried.outcome == "trying":
        return plain(_("Trying {what} …", what=what))
    line = _("  {what}: {outcome}.", what=what, outcome=_(_OUTCOMES[tried.outcome]))
    if tried.raw:
        return plain(_("{line} Message from the cloud: {raw}", line=line, raw=tried.raw))
    # the final error repeats why the search ended
    has_text = tried.outcome == "other" and tried.message != search.stop
    return plain(f"{line} {_(tried.message)}" if has_text else line)


async def _write_kernelspec(options: argparse.Namespace, opened: OpenFleet, search: Search) -> None:
    from jupyter_tpu.kernels.kernelspecs import write_kernelspec

    node = await opened.cloud.get_node(NodeName.parse(search.node_name))
    try:
        await asyncio.to_thread(write_kernelspec, node, opened.settings, ssh_user=options.ssh_user)
    except OSError as error:  # the node exists: its cost must still be reported
        warn(_("Could not write the kernelspec ({error}). To try again, run `jupyter tpu kernelspec`.", error=error))


def _show_end(options: argparse.Namespace, search: Search) -> int:
    """Report the search's outcome and return the exit code.

    Raises:
        OutOfCapacity, WrongState: no node was found, or the search was cancelled.
    """
    if search.phase != "found":
        if options.json:
            echo_json(search_view(search))
            return 1
        raise _not_found(search)
    if options.json:
        echo_json(search_view(search))
    else:
        name = NodeName.parse(search.node_name)
        of = search.candidates[search.tries[-1].index]
        costs = costs_text(of.accelerator_type, of.zone, of.provisioning)
        echo(
            _(
                "{node} in {zone} is READY and {costs} until it is stopped or deleted.",
                node=name.node_id,
                zone=name.zone,
                costs=costs,
            )
        )
    if cloud_settings(options).is_emulated:
        note(EMULATED)
    return 0


def _not_found(search: Search) -> TpuError:
    """Return why no node was found and, if possible, what to do about it."""
    exists = "The search left no resources behind."
    if search.is_cancelled:
        return WrongState(search.message, exists=exists)
    outcomes = [_(_OUTCOMES[each.outcome]) for each in search.tries if each.outcome != "other"]
    refusals = [_("{outcome}.", outcome=f"{outcome[0].upper()}{outcome[1:]}") for outcome in outcomes]
    if not refusals:  # the search failed for a reason other than capacity; its message says what to do
        return OutOfCapacity(search.message, exists=exists)
    hint = "Try other zones or types, add --for 1h, or queue a request with `jupyter tpu queue add`."
    return OutOfCapacity(search.message, exists=joined((_(exists), *dict.fromkeys(refusals)), " "), hint=hint)


def _interrupted(options: argparse.Namespace, begun: list[Search]) -> int:
    """Cancel the search after Ctrl-C, so that it doesn't create an unwanted node."""
    if not begun:
        note("\n" + _("interrupted: no request was sent to the cloud."))
        return SIGINT_EXIT
    note("\n" + _("interrupted: cancelling the search and deleting what it created."))
    again = f"jupyter tpu search --cancel {begun[0].search_id}"
    try:
        search = asyncio.run(_cancelled(options, begun[0].search_id))
    except KeyboardInterrupt:
        # the user interrupted again: print how to finish the cleanup
        note("\n" + _("interrupted: some resources of the search may remain."))
        note_do(again)
    except TpuError as error:
        note(_("The search could not be cancelled: {message}", message=plain(_(error.message))))
        note_do(again)
    else:
        note(_end_text(search))
    return SIGINT_EXIT


async def _cancelled(options: argparse.Namespace, search_id: str) -> Search:
    """Cancel the search unless it has finished, and return the finished search."""
    from jupyter_tpu.fleet.assembly import open_fleet

    async with open_fleet(cloud_settings(options), ssh_user=options.ssh_user) as opened:
        search = await opened.searches.cancel(search_id)
        async for now in opened.searches.watch(search_id):
            search = now
    return search


def _show_cancelled(options: argparse.Namespace, search: Search) -> int:
    if options.json:
        echo_json(search_view(search))
    else:
        echo(_end_text(search))
    return 0


def _end_text(search: Search) -> str:
    if search.phase == "found":
        name = NodeName.parse(search.node_name)
        return _(
            "The search had already found a node. To delete it, run `jupyter tpu delete {node} --zone {zone}`.",
            node=name.node_id,
            zone=name.zone,
        )
    return plain(_(search.message))


def _list(options: argparse.Namespace) -> int:
    if options.types or options.zones:
        raise BadInput(
            "A search requires a name for the new node.", hint="Run `jupyter tpu search NODE --types TYPE,…`."
        )
    searches = asyncio.run(_listed(options))
    if options.json:
        echo_json(searches_view(searches))
    elif searches:
        echo_table(_HEADER, ((s.node_id, s.phase, str(s.tried), _(s.message), s.search_id) for s in searches))
    else:
        note(_("There are no running searches, and none finished in the last day."))
    return 0


async def _listed(options: argparse.Namespace) -> tuple[Search, ...]:
    from contextlib import closing

    from jupyter_tpu.fleet.assembly import open_cloud
    from jupyter_tpu.fleet.capacity.search_service import SearchService
    from jupyter_tpu.journal import Journal, data_dir

    async with open_cloud(cloud_settings(options)) as cloud:
        with closing(await asyncio.to_thread(Journal.open, data_dir())) as journal:
            return await SearchService(cloud, journal).all()
