"""Functions for the commands that change nodes: run a fleet, show its phases, report the result."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import Progress, echo, echo_json, warn
from jupyter_tpu.errors import Text, TpuError, WrongState
from jupyter_tpu.fleet.reconciler.views import intent_view
from jupyter_tpu.i18n import _

if TYPE_CHECKING:
    from jupyter_tpu.cloud.settings import CloudSettings
    from jupyter_tpu.fleet import Fleet, FleetChange, Intent
    from jupyter_tpu.fleet.reconciler.records import FleetSnapshot
    from jupyter_tpu.journal import Journal

Request = Callable[["Fleet"], Awaitable["Intent"]]

SIGINT_EXIT = 130
"""Exit code after Ctrl-C, as in a shell: 128 + 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningFleet:
    """A running fleet, and the warnings to print when it is closed."""

    fleet: Fleet
    journal: Journal
    settings: CloudSettings
    warnings: list[str]


@asynccontextmanager
async def running_fleet(options: argparse.Namespace) -> AsyncIterator[tuple[RunningFleet, Progress]]:
    """Open a fleet and show phase changes. At the end, print the fleet's warnings."""
    from jupyter_tpu.fleet.assembly import open_fleet

    progress, warnings = Progress(), list[str]()
    user = getattr(options, "ssh_user", "")
    try:
        async with open_fleet(
            cloud_settings(options), ssh_user=user, on_change=lambda change: _show(progress, options, change)
        ) as opened:
            # print warnings at the end, so that the progress line doesn't overwrite them
            warnings += opened.fleet.snapshot().notices
            work = RunningFleet(fleet=opened.fleet, journal=opened.journal, settings=opened.settings, warnings=warnings)
            yield work, progress
    finally:
        progress.end()
        for warning in warnings:
            warn(warning)


def _show(progress: Progress, options: argparse.Namespace, change: FleetChange) -> None:
    """Show only this node's phase, because the fleet may be resuming work on other nodes."""
    if change.kind == "intent" and change.node_name.rpartition("/")[2] == options.node.rpartition("/")[2]:
        progress.show(_("{topic}: {text}", topic=options.node, text=_(change.message) or change.phase))


async def perform_request(work: RunningFleet, request: Request, *, ssh_user: str = "") -> Intent:
    """Send a request to the fleet, wait for its intent to complete, and update the kernelspecs.

    Args:
        work: the running fleet.
        request: a function that requests the change from the fleet.
        ssh_user: login name on the VMs of a new node; empty for the default.

    Raises:
        WrongState: the node became READY, but is already being stopped or deleted.
    """
    from jupyter_tpu.journal.audit import Audit

    intent = await request(work.fleet)
    audit = Audit(work.journal, endpoint=work.settings.endpoint, project=work.settings.project)
    await asyncio.to_thread(audit.record_user_request, intent)
    settled = await work.fleet.wait(intent.intent_id)
    # refresh the list, because kernelspecs must match the nodes after the change
    snapshot = await work.fleet.refresh()
    try:
        # use a thread, because writing files must not block the running fleet
        await asyncio.to_thread(_update_kernelspecs, work, settled, snapshot.error is None, ssh_user)
    except OSError as error:  # the node exists: its cost must still be reported
        work.warnings.append(
            _("Could not write the kernelspecs ({error}). To try again, run `jupyter tpu kernelspec`.", error=error)
        )
    _refuse_if_ending(settled, snapshot)
    return settled


def _refuse_if_ending(settled: Intent, snapshot: FleetSnapshot) -> None:
    """Raise an error if the node is already being stopped or deleted, for example because of a budget."""
    if settled.verb not in ("create", "start") or not settled.succeeded:
        return
    for each in snapshot.intents:
        if each.node_name == settled.node_name and each.verb in ("stop", "delete") and not each.settled:
            raise WrongState(
                Text("{node} became READY, but is already being stopped.", node=each.node_name.node_id)
                if each.verb == "stop"
                else Text("{node} became READY, but is already being deleted.", node=each.node_name.node_id),
                exists=each.message,
                hint="`jupyter tpu audit` shows the reason; `jupyter tpu budget` shows how much of each "
                "budget is used.",
            )


def _update_kernelspecs(work: RunningFleet, settled: Intent, is_complete: bool, ssh_user: str) -> None:
    """Write a new node's kernelspec with the login name; don't change kernelspecs that a server wrote."""
    from jupyter_tpu.kernels.kernelspecs import sync_kernelspecs, write_kernelspec

    snapshot = work.fleet.snapshot()
    node = snapshot.node(settled.node_name)
    if settled.verb == "create" and settled.succeeded and node is not None:
        write_kernelspec(node, work.settings, ssh_user=ssh_user)
    sync_kernelspecs(snapshot.nodes, work.settings, complete=is_complete and not snapshot.unreachable)


def report_end(options: argparse.Namespace, intent: Intent, done: str) -> int:
    """Report the intent's outcome, with the message `done` or as JSON, and return exit code 0.

    Raises:
        TpuError: the intent failed; the error has the reason.
    """
    if not intent.succeeded:
        raise intent.error or TpuError(
            intent.message or Text("The request failed (phase: {phase}).", phase=intent.phase)
        )
    if options.json:
        echo_json(intent_view(intent))
    else:
        echo(done)
    return 0
