"""The command `grant`: chips or dollars paid by someone else, from a TPU Research Cloud email or a credit."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.spend.ledger_access import ledger_of_cloud, warn_if_project_unreadable
from jupyter_tpu.cli.terminal import can_ask, echo, echo_json, echo_table, is_confirmed, note, plain, warn
from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.fleet.reconciler.records import FleetSnapshot
from jupyter_tpu.fleet.spend.grant_usage import read_grant_usage
from jupyter_tpu.i18n import _
from jupyter_tpu.money.days import day_of, day_text
from jupyter_tpu.money.grants import Grant, checked_name, grant_from_json
from jupyter_tpu.money.trc_mail import SHORTEST_TERM_DAYS, TrcMail, read_trc_mail

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.journal import Journal
    from jupyter_tpu.journal.grant_store import Grants


_HEADER = ("GRANT", "COVERS", "MODEL", "ZONE", "USED", "FREE", "ENDS ON", "DAYS LEFT")
_NOTHING = "Nothing was saved."
_ADD_OPTIONS = ("mail", "row", "credit", "starts_on", "days", "ends_on", "skip_unread", "yes")


def run_grant(options: argparse.Namespace) -> int:
    """List, add or remove grants."""
    action = _ACTIONS[options.action]
    # `list` needs no name, and its function rejects options that it would ignore
    if action is _list:
        _refuse(options, ("name", *_ADD_OPTIONS))
    elif not options.name:
        raise BadInput(Text("`grant {action}` requires the name of a grant.", action=options.action), exists=_NOTHING)
    return action(options)


def _list(options: argparse.Namespace) -> int:
    view = asyncio.run(_listed(options))
    if options.json:
        echo_json(view)
    elif not view["grants"]:
        note(_("No grants entered: every node counts as billed. To enter a grant, run `jupyter tpu grant add`."))
    else:
        echo_table(_HEADER, (row for each in view["grants"] for row in _table_rows(each)))
        for each in view["grants"]:
            if each["error"]:
                warn(
                    _(
                        "The grant {name} is invalid: {error} Enter it again, or remove it.",
                        name=each["name"],
                        error=_(each["error"]),
                    )
                )
    return 0


def _add(options: argparse.Namespace) -> int:
    grant, problems = enter_grant(options)
    if options.json:
        echo_json({"name": grant.name, **grant.to_json(), "problems": problems})
    else:
        echo(validity(grant))
    return 0


def enter_grant(options: argparse.Namespace) -> tuple[Grant, list[Any]]:
    """Parse, confirm and save the grant of `grant add`; return it and the lines of the email that can't be parsed.

    Raises:
        BadInput: the email or the options are incomplete, or the user declines; nothing is saved.
    """
    # check the name before reading an email from standard input
    checked_name(options.name)
    mail = _mail(options)
    if mail is not None:
        _print_mail(mail)
        if not _can_confirm(options):
            _refuse_unread(options, mail)
    now = time.time()
    grant = grant_from_json(options.name, _body(options, mail, now))
    if mail is not None and _can_confirm(options):
        _confirm(options, mail, grant)
    asyncio.run(_write(options, lambda grants: grants.put(grant, now=now)))
    return grant, list(mail.problems) if mail else []


def validity(grant: Grant) -> str:
    """Return a sentence with the first and last day of a grant."""
    return _(
        "The grant {name} is valid from {starts_on} to the end of {ends_on} (UTC).",
        name=grant.name,
        starts_on=grant.starts_on,
        ends_on=grant.ends_on,
    )


def _remove(options: argparse.Namespace) -> int:
    _refuse(options, _ADD_OPTIONS)
    asyncio.run(_removed(options))
    if options.json:
        echo_json({"removed": options.name})
    else:
        echo(
            _(
                "Removed grant {name}. All usage that the grant covered now counts as billed, including past usage.",
                name=options.name,
            )
        )
    return 0


async def _removed(options: argparse.Namespace) -> None:
    async with ledger_of_cloud(options) as (cloud, ledger):
        await warn_if_project_unreadable(cloud)  # the response has the cloud's time, which the ledger uses
        await asyncio.to_thread(ledger.remove_grant, options.name, now=cloud.clock.now())


_ACTIONS = {"list": _list, "add": _add, "remove": _remove}


def _refuse(options: argparse.Namespace, names: tuple[str, ...]) -> None:
    given = [name for name in names if getattr(options, name)]
    if given:
        shown = ", ".join(
            {"name": _("a name"), "mail": "--from"}.get(name, f"--{name.replace('_', '-')}") for name in given
        )
        raise BadInput(
            Text("`grant {action}` does not take {shown}.", action=options.action, shown=shown),
            exists=_NOTHING,
            hint="See `jupyter tpu grant --help`.",
        )


def _mail(options: argparse.Namespace) -> TrcMail | None:
    """Read the grant from the email or from the ``--row`` options; return None for a credit.

    Raises:
        BadInput: no line of the email is readable, a ``--row`` is unreadable, or neither is given.
    """
    if options.credit is not None:
        return None
    if not options.mail and not options.row:
        raise BadInput(
            "A grant requires chips or an amount.",
            exists=_NOTHING,
            hint="Add --from FILE, --row ROW or --credit USD.",
        )
    mail = read_trc_mail("\n".join(options.row) or _text_of(options.mail))
    if not mail.rows or (options.row and mail.problems):
        raise BadInput(
            Text("The rows cannot be read. {problems}", problems=" ".join(map(_, mail.problems)))
            if options.row
            else Text("The email cannot be read. {problems}", problems=" ".join(map(_, mail.problems))),
            exists=_NOTHING,
            hint="Enter the chips manually, for example with --row '32 spot v4 us-central2-b'.",
        )
    return mail


def _text_of(path: str) -> str:
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise BadInput(
            Text("The file {path} cannot be read: {reason}.", path=path, reason=error.strerror or error),
            exists=_NOTHING,
            hint="Save the email as a file and specify its path; `-` reads standard input.",
            raw=repr(error),
        ) from error
    # the relevant lines are ASCII, so an email in another encoding is still usable
    return data.decode(errors="replace")


def _print_mail(mail: TrcMail) -> None:
    for row in mail.rows:
        chips = _chips_text(row.chips, f"{_model(row.spot)} {row.generation}")
        text = _("read: {chips} in {zone}", chips=chips, zone=row.zone)
        note(_("{chips} ({device} only)", chips=text, device=row.device) if row.device else text)
    for text in mail.notes:
        note(_("note: {text}", text=plain(_(text))))
    for text in mail.problems:
        warn(_("not read: {text}", text=_(text)))


def _refuse_unread(options: argparse.Namespace, mail: TrcMail) -> None:
    """Reject an email with unreadable lines, unless the user accepts that the chips in them count as billed."""
    if mail.problems and not options.skip_unread:
        problems = " ".join(map(_, mail.problems))
        raise BadInput(
            Text("Could not read 1 line of the email: {problems}", problems=problems)
            if len(mail.problems) == 1
            else Text(
                "Could not read {count} lines of the email: {problems}", count=len(mail.problems), problems=problems
            ),
            exists=_NOTHING,
            hint="Enter the whole grant with --row, or add --skip-unread; the chips in the unread lines "
            "then count as billed.",
        )


def _can_confirm(options: argparse.Namespace) -> bool:
    """Whether the user can confirm the values read from an email; typed rows don't need confirmation."""
    return bool(options.mail) and can_ask()


def _confirm(options: argparse.Namespace, mail: TrcMail, grant: Grant) -> None:
    """Ask the user to confirm the dates if the options lack them, and that lines that couldn't be read are skipped."""
    is_proposed = not options.starts_on or not (options.days or options.ends_on)
    unread = (
        "" if options.skip_unread or not mail.problems else _(" without the unread lines (their chips count as billed)")
    )
    if not unread and (options.yes or not is_proposed):
        return
    if not is_confirmed(
        _(
            "Save the grant {name}, from {starts_on} to {ends_on}{unread}?",
            name=grant.name,
            starts_on=grant.starts_on,
            ends_on=grant.ends_on,
            unread=unread,
        )
    ):
        raise BadInput(
            "The grant was not confirmed.",
            exists=_NOTHING,
            hint="Change the dates of the grant with --starts-on, --days and --ends-on; enter rows with --row.",
        )


def _body(options: argparse.Namespace, mail: TrcMail | None, now: float) -> dict[str, Any]:
    """Return the grant as JSON for `grant_from_json`.

    If the options lack the first day or the term, they are taken from the email, and a note is printed.
    """
    starts_on = options.starts_on or (day_text(day_of(now)) if mail is None else mail.sent_on or "")
    days = options.days
    # if the email lacks the grant's term, propose a term, which the user must confirm
    may_propose = options.mail and (options.yes or _can_confirm(options))
    if mail and days is None and not options.ends_on and (mail.days or may_propose):
        days = mail.proposed_days
    if not starts_on:
        raise BadInput(
            "The start date of the grant is missing.",
            exists=_NOTHING,
            hint="Add --starts-on DATE with the date of the email.",
        )
    if days is None and not options.ends_on:
        hint = (
            Text(
                "Add --days N or --ends-on DATE. TRC's shortest term is {days} days; --yes accepts it.",
                days=SHORTEST_TERM_DAYS,
            )
            if options.mail
            else "Add --days N or --ends-on DATE."
        )
        raise BadInput("The term of the grant is missing.", exists=_NOTHING, hint=hint)
    if mail and not options.starts_on:
        note(_("read: starts on {starts_on}, the date of the email (--starts-on changes it)", starts_on=starts_on))
    if mail and days != options.days:
        note(
            _("read: a term of {days} days (--days changes it)", days=days)
            if mail.days
            else _(
                "proposed: a term of {days} days, TRC's shortest: no clear term was found (--days changes it)",
                days=days,
            )
        )
    return {
        "kind": "credit" if mail is None else "trc",
        "starts_on": starts_on,
        "days": days,
        "ends_on": options.ends_on or None,
        "rows": [row.to_json() for row in mail.rows] if mail else None,
        "usd": options.credit,
    }


async def _write(options: argparse.Namespace, change: Callable[[Grants], None]) -> None:
    from jupyter_tpu.fleet.assembly import open_cloud
    from jupyter_tpu.journal.grant_store import Grants

    async with open_cloud(cloud_settings(options)) as cloud:  # `open_cloud` finds the project if no option names it
        with _journal() as journal:
            settings = cloud.settings
            grants = Grants(journal, endpoint=settings.endpoint, project=settings.project)
            await asyncio.to_thread(change, grants)
        await warn_if_project_unreadable(cloud)


async def _listed(options: argparse.Namespace) -> dict[str, Any]:
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(cloud_settings(options)) as cloud:
        with _journal() as journal:
            return (await read_grant_usage(journal, cloud.settings, await _snapshot(cloud))).to_json()


@contextmanager
def _journal() -> Iterator[Journal]:
    from jupyter_tpu.journal import Journal

    with closing(Journal.of_user()) as journal:
        for notice in journal.notices:
            warn(_(notice))
        yield journal


async def _snapshot(cloud: CloudApi) -> FleetSnapshot:
    """Return the cloud's list of nodes; if the cloud doesn't respond, warn and return an empty list."""
    try:
        listed = await cloud.list_nodes()
    except TpuError as error:
        warn(_("The number of chips in use is unknown: {message}", message=_(error.message)))
        return FleetSnapshot(error=error)
    for zone in listed.unreachable:
        warn(_("{zone} did not respond: the number of chips in use there is unknown.", zone=zone))
    return FleetSnapshot(
        nodes=listed.nodes,
        unreachable=listed.unreachable,
        as_of=cloud.clock.now(),
        clock_ahead_s=cloud.clock.ahead_s,
    )


def _table_rows(view: dict[str, Any]) -> list[tuple[str, ...]]:
    if view["error"]:
        return [(view["name"], _("cannot be read"), "", "", "", "", "", "")]
    end = (view["ends_on"], _("ended") if view["is_over"] else str(view["days_left"]))
    if view["kind"] == "credit":
        return [(view["name"], f"${view['usd']:.2f}", "", "", _usd(view["usd_used"]), _usd(view["usd_left"]), *end)]
    return [
        (view["name"], _chips(row), _model(row["spot"]), row["zone"], _number(row["used"]), _number(row["free"]), *end)
        for row in view["rows"]
    ]


def _chips_text(count: int, generation: str) -> str:
    if count == 1:
        return _("1 {generation} chip", generation=generation)
    return _("{count} {generation} chips", count=count, generation=generation)


def _chips(row: dict[str, Any]) -> str:
    text = _chips_text(row["chips"], row["generation"])
    return _("{chips} ({device} only)", chips=text, device=row["device"]) if row["device"] else text


def _model(spot: bool) -> str:
    return "spot" if spot else "on-demand"


def _number(value: int | None) -> str:
    return _("unknown") if value is None else str(value)


def _usd(value: float | None) -> str:
    return _("unknown") if value is None else f"${value:.2f}"
