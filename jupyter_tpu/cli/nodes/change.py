"""The commands `stop`, `start` and `delete`, for any node of the project.

They use the same fleet and journal as the Jupyter server, so the server completes changes that are interrupted here,
and no change is requested twice.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_tpu.cli.node_texts import charge_text, no_start_text, node_text
from jupyter_tpu.cli.nodes.fleet_run import SIGINT_EXIT, perform_request, report_end, running_fleet
from jupyter_tpu.cli.options import (
    cloud_settings,
)
from jupyter_tpu.cli.terminal import echo, echo_json, is_confirmed, note, note_do, note_now, plain, warn
from jupyter_tpu.errors import BadInput, JournalUnwritable, Text
from jupyter_tpu.i18n import _
from jupyter_tpu.models import Node, NodeName

if TYPE_CHECKING:
    from jupyter_tpu.fleet import Fleet, Intent
    from jupyter_tpu.lifecycle.intents import Verb


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One of the commands `stop`, `start` and `delete`.

    Attributes:
        verb: the name of the command.
        title: the command's action on a node.
        refused: the error if the user declines.
        done: the success message.
        interrupted: the message after Ctrl-C.
        loss: what the user loses, for the confirmation; if empty, no confirmation is needed.
        act: requests the change from the fleet.
    """

    verb: Verb
    title: Text
    refused: Text
    done: Text
    interrupted: Text
    loss: Text
    act: Callable[[Fleet, NodeName], Awaitable[Intent]]


_STOP = Change(
    verb="stop",
    title=Text("Stop {node}"),
    refused=Text("Stopping {node} was not confirmed."),
    done=Text("{node} is stopped: its disk is kept."),
    interrupted=Text("interrupted: {node} may already be stopping."),
    loss=Text("All its kernels stop."),
    act=lambda fleet, name: fleet.stop(name),
)
_START = Change(
    verb="start",
    title=Text("Start {node}"),
    refused=Text("Starting {node} was not confirmed."),
    done=Text("{node} is READY."),
    interrupted=Text("interrupted: {node} may already be starting."),
    loss=Text(""),
    act=lambda fleet, name: fleet.start_node(name),
)
_DELETE = Change(
    verb="delete",
    title=Text("Delete {node}"),
    refused=Text("Deleting {node} was not confirmed."),
    done=Text("{node} is deleted."),
    interrupted=Text("interrupted: the deletion of {node} may be in progress."),
    loss=Text("Its disk and all kernels on it are lost."),
    act=lambda fleet, name: fleet.delete(name),
)


def run_stop(options: argparse.Namespace) -> int:
    """Stop one node, or everything."""
    if bool(options.node) == options.all:
        options.parser.error(_("name one NODE, or --all for every node"))
    if not options.all:
        return _run(options, _STOP)
    if options.zone:  # a user who names a zone does not expect nodes elsewhere to stop
        options.parser.error(_("--all stops everything billable in every zone: omit --zone, or name one NODE"))
    from jupyter_tpu.cli.spend.cleanup import run_stop_all

    return run_stop_all(options)


def run_start(options: argparse.Namespace) -> int:
    """Start a stopped node."""
    return _run(options, _START)


def run_delete(options: argparse.Namespace) -> int:
    """Delete a node."""
    return _run(options, _DELETE)


def _run(options: argparse.Namespace, change: Change) -> int:
    """Stop, start or delete the node; ask for confirmation first if data would be lost."""
    # fetch the current node, so that the prompt shows the cost and the data that would be lost
    node = asyncio.run(_find(options))
    if change.verb == "stop":
        _require_one_worker(node, _charge(options, node))
    if change.loss and not options.yes:
        _require_consent(change, node, _charge(options, node))
    try:
        intent = asyncio.run(_perform(options, change, node))
    except JournalUnwritable as unwritable:
        # a full or read-only disk must not keep a node billed
        if change.verb == "start":
            raise  # never start anything billable if the journal can't be written
        return _end_directly(options, change, node, unwritable)
    except KeyboardInterrupt:
        _show_interrupted(change, node, _charge(options, node))
        return SIGINT_EXIT
    return report_end(options, intent, _done(change, node))


async def _find(options: argparse.Namespace) -> Node:
    from jupyter_tpu.cli.nodes.find import find_node_or_intent
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(cloud_settings(options)) as cloud:
        return await find_node_or_intent(cloud, options.node, options.zone)


def _charge(options: argparse.Namespace, node: Node) -> str:
    return charge_text(node, emulated=cloud_settings(options).is_emulated)


def _require_one_worker(node: Node, charge: str) -> None:
    """Refuse to stop a slice before asking: the cloud would refuse it too, without saying what to do."""
    if len(node.workers) > 1:
        name = node.name
        raise BadInput(
            Text(
                "{node} has {count} workers: it can be deleted, but not stopped.",
                node=name.node_id,
                count=len(node.workers),
            ),
            exists=Text("The node was not changed. {charge}", charge=charge),
            hint=Text("Run `jupyter tpu delete {node} --zone {zone}`.", node=name.node_id, zone=name.zone),
        )


def _require_consent(change: Change, node: Node, charge: str) -> None:
    title = _(change.title, node=plain(node_text(node)))
    if not is_confirmed(_("{title}? {charge} {loss}", title=title, charge=charge, loss=_loss(change, node))):
        raise BadInput(
            _(change.refused, node=node.name.node_id),
            exists=Text("The node was not changed. {charge}", charge=charge),
            hint="Answer y, or add --yes.",
        )


def _loss(change: Change, node: Node) -> str:
    return f"{_(change.loss)} {no_start_text(node)}".strip() if change.verb == "stop" else _(change.loss)


def _done(change: Change, node: Node) -> str:
    if change.verb == "stop" and (no_start := no_start_text(node)):
        return _("{node} is stopped. {no_start}", node=node.name.node_id, no_start=no_start)
    return _(change.done, node=node.name.node_id)


async def _perform(options: argparse.Namespace, change: Change, node: Node) -> Intent:
    async with running_fleet(options) as (opened, progress):
        progress.show(_(change.title, node=node_text(node)))
        await opened.fleet.refresh()  # so that operations started by other processes of the user are included
        return await perform_request(opened, lambda fleet: change.act(fleet, node.name))


def _end_directly(options: argparse.Namespace, change: Change, node: Node, unwritable: JournalUnwritable) -> int:
    """Stop or delete the node without the journal, so that a disk failure can't prevent it."""
    warn(_("{message} The request is sent anyway.", message=_(unwritable.message)))
    asyncio.run(_request_end(options, change, node))
    if options.json:
        echo_json({"name": str(node.name), "ok": True, "error": None})
    else:
        echo(_done(change, node))
    return 0


async def _request_end(options: argparse.Namespace, change: Change, node: Node) -> None:
    from jupyter_tpu.cli.spend.ledger_access import warn_of_unwritten
    from jupyter_tpu.fleet.assembly import open_cloud
    from jupyter_tpu.fleet.termination.termination_executor import DirectEnds
    from jupyter_tpu.journal import Journal
    from jupyter_tpu.journal.audit import Audit

    async with open_cloud(cloud_settings(options)) as cloud:
        settings = cloud.settings
        with closing(Journal.of_user(settings.endpoint)) as journal:
            intent = await DirectEnds(cloud, journal).end(change.verb, node.name, wait=True)
            Audit(journal, endpoint=settings.endpoint, project=settings.project).record_user_request(intent)
        warn_of_unwritten(settings)


def _show_interrupted(change: Change, node: Node, charge: str) -> None:
    """Print the state after Ctrl-C: the intent is in the journal, and the cloud may already be performing it."""
    note("\n" + _(change.interrupted, node=node.name.node_id))
    note_now(charge)
    name = node.name
    note_do(
        _(
            "check with `jupyter tpu describe {node} --zone {zone}`, or repeat the command",
            node=name.node_id,
            zone=name.zone,
        )
    )
