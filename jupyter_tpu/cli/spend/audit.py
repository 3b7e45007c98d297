"""The command `audit`: show actions that affected cost or access, with their time and reason."""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import closing
from typing import TYPE_CHECKING

from jupyter_tpu.cli.node_texts import resource_text
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import echo_json, echo_table, note, warn
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.i18n import _

if TYPE_CHECKING:
    from jupyter_tpu.cloud.settings import CloudSettings
    from jupyter_tpu.journal.audit import Entry


# stable names for `Entry.action`, as in the panel's audit log
ACTION_NAMES = {
    "create": Text("Create"),
    "start": Text("Start"),
    "stop": Text("Stop"),
    "delete": Text("Delete"),
    "ended": Text("Ended"),
    "queue": Text("Queue"),
    "unqueue": Text("Remove from queue"),
    "search": Text("Search"),
    "cancel": Text("Cancel search"),
    "preempted": Text("Pre-empted"),
    "recover-on": Text("Auto-recovery on"),
    "recover-wait": Text("Wait to recreate"),
    "recreate": Text("Recreate"),
    "recreated": Text("Recreated"),
    "recover-give-up": Text("Not recreated"),
    "recover-off": Text("Auto-recovery off"),
    "brakes": Text("Auto-stop rules"),
    "keep": Text("Keep running"),
    "checkpoint_hook": Text("Checkpoint hook"),
    "budget": Text("Budget"),
    "budget_level": Text("Budget use"),
    "grant": Text("Grant"),
    "journal_damaged": Text("Journal damaged"),
}
_HEADER = ("TIME (UTC)", "ACTION", "SUBJECT", "REASON")


def run_audit(options: argparse.Namespace) -> int:
    """Print the newest entries of the audit log."""
    # limit the number, so that a typo can't exhaust the memory
    if not 1 <= options.limit <= 1_000_000:
        raise BadInput(
            Text("{limit} is not a valid number of entries.", limit=options.limit),
            hint="Use a number from 1 to 1000000.",
        )
    entries = asyncio.run(_entries(options))
    if options.json:
        echo_json({"entries": [entry.to_json() for entry in entries]})
    elif entries:
        echo_table(_HEADER, map(_row, entries))
    else:
        note(_("The audit log is empty."))
    return 0


def _row(entry: Entry) -> tuple[str, ...]:
    """Return a line of the table; mark a failed action."""
    subject, action = resource_text(entry.subject), _(ACTION_NAMES.get(entry.action, entry.action))
    if entry.error is None:
        return (_time(entry.at), action, subject, _(entry.reason))
    return (
        _time(entry.at),
        _("{action} (failed)", action=action),
        subject,
        _("{reason} The action failed: {error}", reason=_(entry.reason), error=_(entry.error)),
    )


async def _entries(options: argparse.Namespace) -> tuple[Entry, ...]:
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(cloud_settings(options)) as cloud:  # `open_cloud` finds the project if no option names it
        return await asyncio.to_thread(_read, cloud.settings, options.limit)


def _read(settings: CloudSettings, limit: int) -> tuple[Entry, ...]:
    from jupyter_tpu.journal import Journal
    from jupyter_tpu.journal.audit import Audit

    with closing(Journal.of_user()) as journal:
        for notice in journal.notices:
            warn(_(notice))
        return Audit(journal, endpoint=settings.endpoint, project=settings.project).newest(limit)


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
