"""The command `quota`: show the project's limits, and how much of each is used and available."""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import TYPE_CHECKING, Any

from jupyter_tpu import accelerators
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import echo_json, echo_table, note, plain, warn
from jupyter_tpu.errors import BadInput, Text, error_from_json
from jupyter_tpu.fleet.reconciler.views import DEFAULT_ZONE
from jupyter_tpu.fleet.spend.quota_report import quota_view, read_quota
from jupyter_tpu.i18n import _

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_tpu.fleet.spend.quota_report import QuotaReport
    from jupyter_tpu.money.quota import QuotaHolder


_HEADER = ("QUOTA", "WHERE", "LIMIT", "USED", "FREE", "UNIT", "USED BY")
_UNITS = {"chips": Text("chips")}  # the only other unit, TensorCores, is a proper name and isn't translated
_MOST_USERS = 4  # keeps the table narrow; --json names all
_JSON = dict[str, Any]


def run_quota(options: argparse.Namespace) -> int:
    """Print the quota limits and their usage."""
    report = asyncio.run(_read(options))
    everything = _in_zone(quota_view(report, everything=True), options.zone)
    if options.zone and report.limits is not None and not everything["limits"]:
        raise BadInput(
            Text("The project has no TPU quota for {zone}.", zone=options.zone),
            hint="`jupyter tpu quota --all` lists the zones that have quota.",
        )
    if options.json:
        echo_json(everything)
        return 0
    view = everything if options.all else _in_zone(quota_view(report), options.zone)
    # a project has well over a hundred limits: without options, show only the relevant ones
    rows = view["limits"] if options.all or options.zone else _near(view["limits"], report.holdings.held)
    _show({**view, "limits": rows})
    _note_rest(len(everything["limits"]) - len(rows))
    return 0


async def _read(options: argparse.Namespace) -> QuotaReport:
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(cloud_settings(options)) as cloud:
        report = await read_quota(cloud)
    if report.limits is None and report.limits_error and not report.uses():
        raise report.limits_error  # without limits or usage, the report would be empty
    return report


def _in_zone(view: _JSON, zone: str) -> _JSON:
    # some quotas count per region
    places = (zone, accelerators.region_of(zone))
    rows = [row for row in view["limits"] if not zone or row["location"] in places]
    return {**view, "limits": rows}


def _near(rows: Iterable[_JSON], held: Iterable[QuotaHolder]) -> list[_JSON]:
    """Return the limits that are in use, and those of the default zone and of each zone with resources."""
    zones = {DEFAULT_ZONE, *(each.zone for each in held)}
    places = {*zones, *map(accelerators.region_of, zones)}
    return [row for row in rows if row["users"] or row["location"] in places]


def _show(view: _JSON) -> None:
    if view["limits"]:
        echo_table(_HEADER, (_row(row) for row in view["limits"]))
    else:
        note(_("All limits are zero, and no quota is in use."))
    if view["error"]:
        error = error_from_json(view["error"])
        warn(f"{_(error.message)} {_(error.hint)}")
    _note_gaps(view)
    _note_leftovers(view["limits"])
    note(
        _("Limits according to the {source}, as of {as_of}.", source=_(view["source"]), as_of=_clock(view["as_of"]))
        if view["source"]
        else _("No limits are known.")
    )


def _row(row: _JSON) -> tuple[str, ...]:
    return (
        _(row["label"]),
        row["location"],
        _("unlimited") if row["is_unlimited"] else _number(row["limit"]),
        str(row["used"]),
        _("unlimited") if row["is_unlimited"] else _number(row["free"]),
        _(_UNITS[row["unit"]]) if row["unit"] in _UNITS else row["unit"],
        _users_text(row["users"]),
    )


def _number(value: int | None) -> str:
    return _("unknown") if value is None else str(value)


def _users_text(users: list[_JSON]) -> str:
    shown = [_user_text(user) for user in users[:_MOST_USERS]]
    more = _("and {count} more", count=len(users) - _MOST_USERS) if len(users) > _MOST_USERS else ""
    return ", ".join(filter(None, (*shown, more)))


def _user_text(user: _JSON) -> str:
    """Return the name and usage of a resource that uses quota, such as ``my-node 8``; add the state of a leftover."""
    text = f"{user['name'].rpartition('/')[2]} {user['amount']}"
    if user["kind"] == "queued_resource":
        text = _("queued {node}", node=text)
    return _("{node} ({state} leftover)", node=text, state=user["state"]) if user["is_leftover"] else text


def _note_gaps(view: _JSON) -> None:
    for zone in view["unreachable"]:
        warn(_("{zone} did not respond: resources there are not counted.", zone=zone))
    for name in view["uncounted"]:
        warn(_("{name} is not counted, because this version doesn't know its type.", name=name))


def _note_leftovers(rows: Iterable[_JSON]) -> None:
    leftovers = {user["name"] for row in rows for user in row["users"] if user["is_leftover"]}
    if leftovers:
        note(
            _("1 leftover uses quota. `jupyter tpu cleanup` shows and deletes leftovers.")
            if len(leftovers) == 1
            else _(
                "{count} leftovers use quota. `jupyter tpu cleanup` shows and deletes leftovers.", count=len(leftovers)
            )
        )


def _note_rest(left_out: int) -> None:
    if left_out:
        note(
            _("1 limit is hidden. Use `--zone ZONE` for the limits of a zone, or `--all` for all limits.")
            if left_out == 1
            else _(
                "{count} limits are hidden. Use `--zone ZONE` for the limits of a zone, or `--all` for all limits.",
                count=left_out,
            )
        )


def _clock(moment: float) -> str:
    return plain(time.strftime("%H:%M:%S", time.localtime(moment)))
