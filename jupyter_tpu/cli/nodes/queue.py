"""The command `queue`: list, add and remove queued resources, which create a node when capacity allows."""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import TYPE_CHECKING

from jupyter_tpu import accelerators
from jupyter_tpu.cli.node_texts import EMULATED, costs_text
from jupyter_tpu.cli.nodes.consent import require_known_price, run_with_consent
from jupyter_tpu.cli.options import (
    chosen_provisioning,
    chosen_runtime_version,
    cloud_settings,
    node_options,
    types_hint,
)
from jupyter_tpu.cli.terminal import echo, echo_json, echo_table, is_confirmed, note, plain
from jupyter_tpu.errors import BadInput, QueuedNotFound, Text
from jupyter_tpu.fleet.capacity.views import queue_view, queued_view
from jupyter_tpu.i18n import _
from jupyter_tpu.models import NodeName, NodeSpec, QueuedResource
from jupyter_tpu.provisioning import FLEX_START_LABELS, Provisioning, flags_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jupyter_tpu.fleet.assembly import OpenFleet
    from jupyter_tpu.fleet.capacity.queued_resources import QueueSnapshot

    Request = Callable[[OpenFleet], Awaitable[QueuedResource]]

_HEADER = ("ID", "ZONE", "TYPE", "STATE", "NODES", "WAITS UNTIL", "NOTE")
_NOTHING = "No request was sent to the cloud."


def run_queue(options: argparse.Namespace) -> int:
    """List, add or remove queued resources."""
    if options.action != "list" and not options.name:
        raise BadInput(Text("`queue {action}` requires a name.", action=options.action), exists=_NOTHING)
    code = _ACTIONS[options.action](options)
    if cloud_settings(options).is_emulated:
        note(EMULATED)
    return code


def _list(options: argparse.Namespace) -> int:
    snapshot = asyncio.run(_listed(options))
    if options.json:
        echo_json(queue_view(snapshot))
        return 0
    if snapshot.items:
        echo_table(_HEADER, (_row(each) for each in snapshot.items))
    else:
        note(_("Nothing is queued."))
    for zone in snapshot.unreachable:
        note(_("{zone} did not respond: its queued resources are not listed.", zone=plain(zone)))
    return 0


async def _listed(options: argparse.Namespace) -> QueueSnapshot:
    from jupyter_tpu.fleet.assembly import open_cloud
    from jupyter_tpu.fleet.capacity.queued_resources import QueueSnapshot

    async with open_cloud(cloud_settings(options)) as cloud:
        as_of = time.time()
        listed = await cloud.list_queued_resources()
    return QueueSnapshot(as_of=as_of, items=listed.items, unreachable=listed.unreachable)


def _row(queued: QueuedResource) -> tuple[str, ...]:
    name = queued.name
    until = _time_text(queued.valid_until)
    # a multislice request has many nodes: show three to keep the table narrow
    nodes = ", ".join(queued.node_ids[:3]) + (
        _(" and {count} more", count=len(queued.node_ids) - 3) if queued.node_ids[3:] else ""
    )
    return (name.queued_id, name.zone, queued.accelerator_type, queued.state, nodes, until, _note_text(queued))


def _time_text(moment: float | None) -> str:
    return "" if moment is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def _note_text(queued: QueuedResource) -> str:
    leftover = _("uses quota until it is removed") if queued.is_leftover else ""
    return ". ".join(filter(None, (leftover, _(queued.error.message) if queued.error else "")))


def _add(options: argparse.Namespace) -> int:
    if not options.zone or not options.type:
        raise BadInput("`queue add` requires --zone and --type.", exists=_NOTHING, hint=types_hint("--type"))
    kind = accelerators.accelerator(options.type)
    NodeName(project="any-project", zone=options.zone, node_id=options.name)  # rejects an invalid name or zone
    provisioning = _provisioning(options)
    queued = run_with_consent(options, _("Queue it anyway?"), lambda: _added(options, kind, provisioning))
    if options.json:
        echo_json(queued_view(queued))
        return 0
    until = _time_text(queued.valid_until)
    echo(
        _(
            "{queued} is {state} in {zone}{until}.",
            queued=queued.name.queued_id,
            state=queued.state,
            zone=queued.name.zone,
            until=_(", until {time}", time=until) if until else "",
        )
    )
    costs = costs_text(kind.type, options.zone, provisioning)
    note(_("The node {costs} once it is READY; `jupyter tpu queue` shows the state.", costs=costs))
    return 0


def _provisioning(options: argparse.Namespace) -> Provisioning:
    """Return the provisioning model. ``--run-for`` without a model selects flex-start, which requires ``--run-for``."""
    provisioning = chosen_provisioning(options)
    if options.run_for and provisioning == "on-demand" and not options.provisioning:
        return "flex-start"
    if provisioning == "flex-start" and not options.run_for:
        raise BadInput(
            "A flex-start node requires a run duration.", exists=_NOTHING, hint="Add --run-for TIME, such as 4h."
        )
    if options.run_for and provisioning != "flex-start":
        raise BadInput(
            Text("--run-for applies to flex-start nodes, not to {provisioning} nodes.", provisioning=provisioning),
            exists=_NOTHING,
            hint="Omit --run-for, or choose flex-start.",
        )
    return provisioning


async def _added(
    options: argparse.Namespace, kind: accelerators.Accelerator, provisioning: Provisioning
) -> QueuedResource:
    from jupyter_tpu.fleet.assembly import open_fleet

    runtime_version = chosen_runtime_version(options, kind)
    async with open_fleet(cloud_settings(options), ssh_user=options.ssh_user) as opened:
        spec = NodeSpec(
            name=NodeName(project=opened.settings.project, zone=options.zone, node_id=options.name),
            accelerator_type=kind.type,
            runtime_version=runtime_version,
            **flags_of(provisioning),
            options=node_options(options),
            # the v2 API has no field for flex-start nodes, so a label marks them
            labels=FLEX_START_LABELS if provisioning == "flex-start" else {},
        )
        await require_known_price(options, opened, [spec])
        return await opened.queue.add(
            spec,
            valid_for_s=options.valid_for,
            run_for_s=options.run_for,
            reservation=options.reservation,
            accept_unknown_price=options.accept_unknown_price,
        )


def _remove(options: argparse.Namespace) -> int:
    # use two event loops, because the confirmation between them blocks
    async def find(opened: OpenFleet) -> QueuedResource:
        return _only_match((await opened.queue.list()).items, options.name, options.zone)

    found = asyncio.run(_with_fleet(options, find))
    # in these states, the request has nodes, which are deleted with it
    if found.state in ("ACTIVE", "PROVISIONING") and not options.yes:
        _require_consent_to_removal(found)

    async def remove(opened: OpenFleet) -> QueuedResource:
        return await opened.queue.remove(found.name)

    queued = asyncio.run(_with_fleet(options, remove))
    if options.json:
        echo_json(queued_view(queued))
    else:
        echo(_("{queued} in {zone} is being deleted.", queued=queued.name.queued_id, zone=queued.name.zone))
    return 0


async def _with_fleet(options: argparse.Namespace, request: Request) -> QueuedResource:
    from jupyter_tpu.fleet.assembly import open_fleet

    async with open_fleet(cloud_settings(options)) as opened:
        return await request(opened)


def _only_match(items: tuple[QueuedResource, ...], queued_id: str, zone: str) -> QueuedResource:
    found = [each for each in items if each.name.queued_id == queued_id and zone in ("", each.name.zone)]
    if not found:
        where = _(" in {zone}", zone=zone) if zone else ""
        raise QueuedNotFound(
            Text("There is no queued resource {queued}{where}.", queued=queued_id[:70], where=where),
            exists="Nothing was removed.",
            hint="`jupyter tpu queue` lists the queued resources.",
        )
    if len(found) > 1:
        zones = ", ".join(each.name.zone for each in found)
        raise BadInput(
            Text("Several queued resources are named {queued}.", queued=queued_id),
            exists=Text("They are in {zones}.", zones=zones),
            hint="Add --zone.",
        )
    return found[0]


def _require_consent_to_removal(queued: QueuedResource) -> None:
    nodes = ", ".join(queued.node_ids)
    what = _("{queued} ({state}) and {nodes}", queued=queued.name.queued_id, state=queued.state, nodes=nodes)
    if not is_confirmed(_("Delete {what}, including disks and kernels?", what=what)):
        raise BadInput(
            Text("Removing {queued} was not confirmed.", queued=queued.name.queued_id),
            exists=Text("The queued resource is still {state}.", state=queued.state),
            hint="Answer y, or add --yes.",
        )


_ACTIONS = {"list": _list, "add": _add, "remove": _remove}
