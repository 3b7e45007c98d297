"""The command `recover`: show or set a node's auto-recovery, with its limits on attempts and cost."""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import closing
from typing import TYPE_CHECKING

from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import echo, echo_json, echo_table, note, plain, warn
from jupyter_tpu.errors import BadInput, NodeNotFound
from jupyter_tpu.i18n import _

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.journal import Journal
    from jupyter_tpu.lifecycle.recovery_state import Recovery
    from jupyter_tpu.models import NodeName


_HEADER = ("NODE", "ZONE", "STATE", "ATTEMPTS", "CAP", "MESSAGE")


def run_recover(options: argparse.Namespace) -> int:
    """Show which nodes are recreated after a pre-emption, or change one node's setting."""
    _check_options(options)
    shown = asyncio.run(_chosen(options) if options.on or options.off else _found(options))
    _show(options, shown)
    return 0


def _check_options(options: argparse.Namespace) -> None:
    # without `on`, these options would be ignored silently
    if (options.attempts is not None or options.max_usd is not None) and not options.on:
        raise BadInput("--attempts and --max-usd require --on.", exists="Nothing was changed.")
    if (options.on or options.off) and not options.node:
        raise BadInput("No node was given.", hint="Run `jupyter tpu recover NODE --on`.")


async def _chosen(options: argparse.Namespace) -> tuple[Recovery, ...]:
    from jupyter_tpu.fleet.assembly import open_cloud
    from jupyter_tpu.fleet.capacity.recreate import set_recovery
    from jupyter_tpu.lifecycle.recovery_state import DEFAULT_ATTEMPTS

    async with open_cloud(cloud_settings(options)) as cloud:
        with closing(_journal()) as journal:
            chosen = await set_recovery(
                cloud,
                journal,
                await _name(options, cloud, journal),
                is_on=options.on,
                max_attempts=DEFAULT_ATTEMPTS if options.attempts is None else options.attempts,
                max_usd=options.max_usd,
                now=time.time(),
            )
    return (chosen,)


async def _found(options: argparse.Namespace) -> tuple[Recovery, ...]:
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(cloud_settings(options)) as cloud:  # `open_cloud` finds the project if no option names it
        with closing(_journal()) as journal:
            return _matches(options, cloud, journal)


async def _name(options: argparse.Namespace, cloud: CloudApi, journal: Journal) -> NodeName:
    """Return the full name of a node that exists or has a recovery setting."""
    from jupyter_tpu.cli.nodes.find import find_node

    try:
        return (await find_node(cloud, options.node, options.zone)).name
    except NodeNotFound:
        # a pre-empted node may have been deleted in the cloud while its setting is still in the journal
        known = _matches(options, cloud, journal)
        if len(known) != 1:
            raise
        return known[0].name


def _matches(options: argparse.Namespace, cloud: CloudApi, journal: Journal) -> tuple[Recovery, ...]:
    from jupyter_tpu.journal.recovery_store import Recoveries

    settings = cloud.settings
    known = Recoveries(journal, endpoint=settings.endpoint, project=settings.project).all()
    meant = (each for each in known if options.node in ("", each.name.node_id, str(each.name)))
    return tuple(each for each in meant if options.zone in ("", each.name.zone))


def _journal() -> Journal:
    from jupyter_tpu.journal import Journal

    journal = Journal.of_user()
    for notice in journal.notices:
        warn(_(notice))
    return journal


def _show(options: argparse.Namespace, shown: tuple[Recovery, ...]) -> None:
    from jupyter_tpu.fleet.capacity.recreate import recovery_view

    views = [recovery_view(each) for each in shown]
    if options.json:
        echo_json(views[0] if options.on or options.off else {"choices": views})
    elif options.on or options.off:
        echo(plain(_(shown[0].message)))
    elif not shown:
        note(
            _("Auto-recovery is off for {node}: it is not recreated after a pre-emption.", node=plain(options.node))
            if options.node
            else _("Auto-recovery is off for all nodes: none is recreated after a pre-emption.")
        )
    else:
        echo_table(_HEADER, map(_row, shown))


def _row(recovery: Recovery) -> tuple[str, ...]:
    cap = _("none") if recovery.max_usd is None else f"${recovery.max_usd:,.2f}"
    attempts = _("{attempts} of {most}", attempts=recovery.attempt_number, most=recovery.max_attempts)
    return recovery.name.node_id, recovery.name.zone, recovery.phase, attempts, cap, _(recovery.message)
