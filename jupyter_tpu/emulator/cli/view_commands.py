"""Commands that show a running emulator: ``state`` and ``ledger``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from jupyter_tpu.emulator.cli.options import BadValue, Command, table
from jupyter_tpu.emulator.control.client import EmulatorControl

_NANOS = 10**9  # nano-dollars per dollar
_MOST = 20  # lines per list, so that the whole state fits on about one screen


def last_part(name: str) -> str:
    """Return the last part of a resource name, which is the resource's id."""
    return name.rpartition("/")[2]


def format_moment(moment: float) -> str:
    """Format a virtual time (seconds since the epoch) as ``2026-11-21 22:00:00 UTC``."""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S} UTC"


def format_duration(seconds: float) -> str:
    """Format a duration such as ``1:02:05``."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def format_money(nano_usd: int | None) -> str:
    """Format an amount to the nano-dollar, such as ``$1.234567891``; None means unknown."""
    return "unknown" if nano_usd is None else f"${nano_usd // _NANOS}.{nano_usd % _NANOS:09}"


def format_price(usd_per_hour: float | None) -> str:
    """Format a price such as ``$4.8000/h``; None means unknown."""
    return "unknown" if usd_per_hour is None else f"${usd_per_hour:.4f}/h"


def counted(number: int, thing: str) -> str:
    """Format a number with its noun: ``1 node``, ``2 nodes``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def format_chips(chips: int | None) -> str:
    """Format a number of chips; None means unlimited."""
    return "unlimited" if chips is None else f"{chips} chips"


def format_limit(limit: int) -> str:
    """Format a limit; a negative number means unlimited."""
    return "unlimited" if limit < 0 else str(limit)


def _state(control: EmulatorControl, _: argparse.Namespace) -> Any:
    return control.state()


def format_state(state: Mapping[str, Any]) -> Iterator[str]:
    """Yield the output lines of the command ``state``."""
    yield f"Project {state['project']}, {format_clock(state['clock'])}"
    yield from _listed(counted(state["node_count"], "node"), map(_format_node, state["nodes"]))
    queued = state["queued_resources"]
    yield from _listed(counted(len(queued), "queued resource"), map(_format_queued, queued))
    yield from _listed("Faults of calls", map(format_fault, state["faults"]))
    # omit links without faults, because every worker has a link
    yield from _listed("Faults of links", map(_format_link, filter(_is_faulty, state["links"])))
    yield from _listed("Capacity that was set", map(format_pool, state["capacity"]))
    yield from _listed("Quotas that are set or used", map(format_quota, state["quotas"]))
    yield from _listed("Reservations", map(format_reservation, state["reservations"]))
    yield from _listed("Maintenance", map(format_maintenance, state["maintenance"]))
    yield from _listed("Switches", (format_switch(name, value) for name, value in state["switches"].items()))
    yield format_totals(state["ledger"])


def _listed(title: str, lines: Any) -> Iterator[str]:
    """Yield a title and then the lines; yield nothing if there are no lines."""
    known = list(lines)
    if known:
        yield f"{title}:"
        yield from (f"  {line}" for line in known[:_MOST])
    if len(known) > _MOST:
        yield f"  … {len(known) - _MOST} more (--json shows them)"


def format_clock(clock: Mapping[str, Any]) -> str:
    """Return the clock as one line."""
    pace = "paused" if clock["paused"] else f"{clock['scale']:g} virtual seconds per second"
    return f"{format_moment(clock['now'])} in virtual time, {pace}"


def _format_node(node: Mapping[str, Any]) -> str:
    spot = ", spot" if node["spot"] else ""
    return f"{last_part(node['name'])} in {_zone(node['name'])}: {node['state']} ({node['accelerator_type']}{spot})"


def _zone(name: str) -> str:
    return name.split("/")[3]


def _format_queued(queued: Mapping[str, Any]) -> str:
    nodes = ", ".join(map(last_part, queued["nodes"])) or "no nodes"
    return f"{last_part(queued['name'])} in {_zone(queued['name'])}: {queued['state']} ({nodes})"


def format_fault(fault: Mapping[str, Any]) -> str:
    """Format a fault: ``3: error of CreateNode for n1, UNAVAILABLE "…", 2 times more, hit 1 of 1 call``."""
    # `times` is None for kinds of faults that last until they are cleared
    left = "until it is cleared" if fault["times"] is None else f"{counted(fault['times'], 'time')} more"
    target = f" for {fault['target']}" if fault["target"] else ""
    seconds = f" {fault['seconds']:g} s," if fault["seconds"] else ""
    chance = f" with probability {fault['probability']:g} (seed {fault['seed']})," if fault["probability"] < 1 else ""
    nth = f" from call {fault['nth']} on," if fault["nth"] > 1 else ""
    refusal = f" {fault['code']} {fault['message']!r}," if fault["kind"] in ("error", "operation_error") else ""
    return (
        f"{fault['id']}: {fault['kind']} of {fault['method']}{target},{refusal}{seconds}{chance}{nth} {left}, "
        f"hit {fault['struck']} of {counted(fault['seen'], 'call')}"
    )


def _is_faulty(link: Mapping[str, Any]) -> bool:
    return bool(link["faults"])


def _format_link(link: Mapping[str, Any]) -> str:
    verbs = ", ".join(str(fault["verb"]) for fault in link["faults"])
    return f"{last_part(link['node'])} worker {link['worker_id']}: {verbs}"


def format_pool(pool: Mapping[str, Any]) -> str:
    """Return a pool of chips as one line."""
    out = ", stocked out" if pool["stocked_out"] else ""
    return f"{pool['family']} in {pool['zone']}: {format_chips(pool['chips'])}, {pool['used']} used{out}"


def format_quota(quota: Mapping[str, Any]) -> str:
    """Return a quota as one line."""
    place = quota.get("zone") or quota.get("region")
    return f"{quota['quota_id']} in {place}: {quota['used']} of {format_limit(quota['limit'])} {quota['unit']} used"


def format_reservation(reservation: Mapping[str, Any]) -> str:
    """Return a reservation as one line."""
    chips = f"{reservation['chips']} chips of {reservation['family']}"
    return f"{reservation['reservation_id']}: {chips} in {reservation['zone']}"


def format_maintenance(event: Mapping[str, Any]) -> str:
    """Return a maintenance event as one line."""
    begins = "under way" if event["is_ongoing"] else f"begins {format_moment(event['starts'])}"
    return f"{last_part(event['node'])}: {event['kind']}, {begins}, ends {format_moment(event['ends'])}"


def format_switch(name: str, value: object) -> str:
    """Format a setting of the project as ``name=value``, the form that the command ``project`` accepts."""
    shown = ",".join(map(str, value)) if isinstance(value, list) else str(value).lower()
    return f"{name}={shown}"


def format_totals(totals: Mapping[str, Any]) -> str:
    """Return the totals of the ledger as one line."""
    unpriced = f", without {totals['unpriced']} of unknown price" if totals["unpriced"] else ""
    return (
        f"Ledger: {format_money(totals['total_nano_usd'])} (emulated: no charge){unpriced}; "
        f"{totals['billing']} billed now, {format_price(totals['usd_per_hour'])}"
    )


def _ledger_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE", nargs="?", default="", help="only this node (short or full name)")
    parser.add_argument("--spans", action="store_true", help="show each interval of READY time")


def _ledger(control: EmulatorControl, options: argparse.Namespace) -> Any:
    ledger = control.ledger()
    bills = [bill for bill in ledger["nodes"] if options.node in ("", bill["name"], last_part(bill["name"]))]
    # an empty table would look as if the node had cost nothing
    if options.node and not bills:
        names = ", ".join(dict.fromkeys(last_part(bill["name"]) for bill in ledger["nodes"][-_MOST:]))
        raise BadValue(
            f"There is no bill for a node {options.node!r}; {f'nodes: {names}' if names else 'no node was READY yet'}."
        )
    return {**ledger, "nodes": bills, "show_spans": options.spans} if options.spans else {**ledger, "nodes": bills}


def _format_ledger(ledger: Mapping[str, Any]) -> Iterator[str]:
    header = ("NODE", "ZONE", "TYPE", "MODE", "READY", "PRICE", "COST", "BILLED")
    yield from table(header, [_bill_row(bill) for bill in ledger["nodes"]])
    if ledger.get("show_spans"):
        yield from (_format_span(bill, span) for bill in ledger["nodes"] for span in bill["spans"])
    yield format_totals(ledger)


def _bill_row(bill: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        last_part(bill["name"]),
        bill["zone"],
        bill["accelerator_type"],
        bill["mode"],
        format_duration(bill["ready_seconds"]),
        format_price(bill["usd_per_hour"]),
        format_money(bill["nano_usd"]),
        "now" if bill["billing"] else "no",
    )


def _format_span(bill: Mapping[str, Any], span: Mapping[str, Any]) -> str:
    end = "now" if span["ended"] is None else format_moment(span["ended"])
    waived = ", waived: pre-empted in its first minute" if span["waived"] else ""
    return (
        f"  {last_part(bill['name'])}: {format_moment(span['started'])} to {end}, {span['seconds']} s, "
        f"{format_money(span['nano_usd'])}{waived}"
    )


COMMANDS = (
    Command(
        name="state",
        summary="Show the state of an emulator: nodes, queued resources, faults, limits, switches, clock and costs.",
        perform=_state,
        format_lines=format_state,
    ),
    Command(
        name="ledger",
        summary="Show what the emulated nodes would have cost: READY seconds at list price, to the nano-dollar.",
        arguments=_ledger_arguments,
        perform=_ledger,
        format_lines=_format_ledger,
        notes="A node that is recreated under the same name has a separate bill. Nothing is ever charged.",
    ),
)
