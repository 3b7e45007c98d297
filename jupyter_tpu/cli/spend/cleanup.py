"""The commands `cleanup` (list or delete billable resources) and `stop --all` (stop all spending)."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from jupyter_tpu.cli.node_texts import EMULATED, resource_text
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.spend.ledger_access import warn_of_unwritten
from jupyter_tpu.cli.terminal import echo, echo_json, echo_table, is_confirmed, note, plain, report, warn
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.fleet.cleanup.billable import (
    all_leftovers,
    billable_view,
    delete_items,
    items_of,
    marked,
    results_view,
)
from jupyter_tpu.fleet.reconciler.inventory import list_holdings
from jupyter_tpu.i18n import _, padded

if TYPE_CHECKING:
    from jupyter_tpu.fleet.assembly import OpenFleet
    from jupyter_tpu.fleet.cleanup.billable import Item
    from jupyter_tpu.fleet.cleanup.stop_all import Step
    from jupyter_tpu.fleet.reconciler.inventory import Holdings
    from jupyter_tpu.fleet.termination.termination_executor import Result


_HEADER = ("NAME", "KIND", "ZONE", "TYPE", "STATE", "PRICE", "QUOTA", "CREATED BY")
_KINDS = {"node": Text("node"), "queued_resource": Text("queued resource")}
_DONE = {
    "delete": Text("deleted"),
    "stop": Text("stopped"),
    "wait": Text("waiting"),
    "cancel": Text("cancelled"),
    "recover-off": Text("off"),
}
_VERBS = {
    "delete": Text("delete {kind} {name}"),
    "stop": Text("stop {kind} {name}"),
}
_REASON = Text("The user cleaned up the project.")


def run_cleanup(options: argparse.Namespace) -> int:
    """List resources that are billed or use quota, or delete some of them."""
    holdings = asyncio.run(_read_holdings(options))
    if not (options.delete or options.delete_leftovers):
        _show_holdings(options, holdings)
        return 0
    chosen = marked(holdings, options.delete) if options.delete else all_leftovers(holdings)
    if chosen and not options.yes:
        _require_consent(chosen)
    if not chosen:
        return _show_end(options, (), _("There was nothing to delete."))
    return _show_end(options, asyncio.run(_delete(options, chosen)), "")


async def _read_holdings(options: argparse.Namespace) -> Holdings:
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(cloud_settings(options)) as cloud:
        holdings = await list_holdings(cloud)
    # show an incomplete list with a warning; only an empty list is an error
    if holdings.error and not (holdings.nodes or holdings.queued):
        raise holdings.error
    return holdings


def _show_holdings(options: argparse.Namespace, holdings: Holdings) -> None:
    if options.json:
        echo_json({**billable_view(holdings), "emulated": cloud_settings(options).is_emulated})
        return
    items = items_of(holdings)
    if items:
        echo_table(_HEADER, (_row(item) for item in items))
    elif holdings.is_complete:
        note(_("Nothing in the project costs money or uses quota."))
    _warn_of_gaps(holdings)
    leftovers = sum(item.is_leftover for item in items)
    if leftovers:
        note(_leftovers_text(leftovers))
    if cloud_settings(options).is_emulated:
        note(EMULATED)


def _leftovers_text(count: int) -> str:
    if count == 1:
        return _(
            "1 leftover uses quota and can never run again. To delete it, run `jupyter tpu cleanup --delete-leftovers`."
        )
    return _(
        "{count} leftovers use quota and can never run again. To delete them, run `jupyter tpu cleanup "
        "--delete-leftovers`.",
        count=count,
    )


def _row(item: Item) -> tuple[str, ...]:
    return (
        item.short_id,
        _(_KINDS[item.kind]),
        item.zone,
        item.accelerator_type,
        _("{state} (leftover)", state=item.state) if item.is_leftover else item.state,
        _price_text(item),
        _("yes") if item.holds_quota else _("no"),
        "jupyter_tpu" if item.is_ours else _("others"),
    )


def _consequence(item: Item) -> str:
    """Describe an item and what is deleted: ``my-node node … STOPPED not billed: deleted with its disk``."""
    if item.kind == "queued_resource":
        loss = _("deleted with its nodes and their disks")
    elif item.state == "STOPPED":
        loss = _("deleted with its disk; to keep the disk, leave the node stopped")
    else:
        loss = _("deleted with its disk; its kernels stop")
    return f"{' '.join(filter(None, _row(item)[:6]))}: {loss}"


def _price_text(item: Item) -> str:
    if not item.is_billed:
        return _("not billed")
    return _("unknown") if item.usd_per_hour is None else f"${item.usd_per_hour:.2f}/h"


def _warn_of_gaps(holdings: Holdings) -> None:
    if holdings.error:
        warn(_("The list is incomplete: {message}", message=_(holdings.error.message)))
    for zone in holdings.unreachable:
        warn(_("The list is incomplete: {zone} did not respond.", zone=zone))


def _require_consent(chosen: Iterable[Item]) -> None:
    for item in chosen:
        note(f"  {plain(_consequence(item))}")
    if not is_confirmed(_("Delete these? All files on the disks are lost.")):
        raise BadInput("The deletion was not confirmed.", exists="Nothing was deleted.", hint="Answer y, or add --yes.")


async def _delete(options: argparse.Namespace, chosen: tuple[Item, ...]) -> tuple[Result, ...]:
    async with _open(options) as opened:
        return await delete_items(opened, chosen, reason=_REASON, wait=True, on_result=_result_printer(options))


@asynccontextmanager
async def _open(options: argparse.Namespace) -> AsyncIterator[OpenFleet]:
    """Open a fleet with a current list of nodes; update the kernelspecs when the context ends."""
    from jupyter_tpu.fleet.assembly import open_fleet
    from jupyter_tpu.kernels.kernelspecs import sync_kernelspecs

    async with open_fleet(cloud_settings(options)) as opened:
        await opened.fleet.refresh()
        yield opened
        await asyncio.to_thread(warn_of_unwritten, opened.settings)
        snapshot = await opened.fleet.refresh()
        complete = snapshot.error is None and not snapshot.unreachable
        try:
            await asyncio.to_thread(sync_kernelspecs, snapshot.nodes, opened.settings, complete=complete)
        except OSError as error:
            warn(
                _("Could not write the kernelspecs ({error}). To try again, run `jupyter tpu kernelspec`.", error=error)
            )


def run_stop_all(options: argparse.Namespace) -> int:
    """Stop all of the project's spending."""
    if not options.yes:
        _require_consent_to_stop_all(asyncio.run(_steps(options)))
    results, nothing = asyncio.run(_stop_all(options))
    return _show_end(options, results, nothing)


async def _steps(options: argparse.Namespace) -> tuple[Step, ...]:
    from jupyter_tpu.fleet.cleanup.stop_all import steps

    async with _open(options) as opened:
        return steps(await list_holdings(opened.cloud), opened.fleet.snapshot())


def _require_consent_to_stop_all(steps: Iterable[Step]) -> None:
    for step in steps:
        note(plain("  " + _(_VERBS[step.verb], kind=_(_KINDS[step.kind]), name=resource_text(step.name))))
    if not is_confirmed(
        _(
            "Stop all spending now? Nodes that cannot be stopped are deleted with their disks, and searches"
            " are cancelled."
        )
    ):
        raise BadInput(
            "Stopping everything was not confirmed.", exists="Nothing was changed.", hint="Answer y, or add --yes."
        )


async def _stop_all(options: argparse.Namespace) -> tuple[tuple[Result, ...], str]:
    """Stop everything; return the results, and a text to print if there are no results."""
    from jupyter_tpu.fleet.cleanup.stop_all import stop_all

    async with _open(options) as opened:
        results = await stop_all(opened, _result_printer(options))
        # show stopped nodes, because their disks are still billed
        stopped = [node.name.node_id for node in opened.fleet.snapshot().nodes if node.state == "STOPPED"]
    if not stopped:
        return results, _("Nothing in the project costs money.")
    return results, _("No node was READY. The disks of {nodes} are still billed.", nodes=", ".join(map(plain, stopped)))


def _result_printer(options: argparse.Namespace) -> Callable[[Result], None]:
    """Return a function that prints each result as it arrives, so that a slow action doesn't delay other results."""
    # with --json, the document at the end contains all results
    return (lambda _result: None) if options.json else _show_result


def _show_end(options: argparse.Namespace, results: tuple[Result, ...], nothing: str) -> int:
    """Print the results as JSON if requested. Text was printed earlier. Return exit code 1 if anything failed."""
    if options.json:
        echo_json(results_view(results))
    elif not results:
        note(nothing)
    return 1 if any(result.error for result in results) else 0


def _show_result(result: Result) -> None:
    word = _("failed") if result.error else _(_DONE.get(result.action, Text("done")))
    echo(f"{padded(word, 9)} {plain(resource_text(result.name))}")
    if result.error:
        report(result.error, as_json=False)
    elif result.why:
        note(plain(_(result.why)))
