"""Commands that set limits of the project: ``stockout``, ``capacity``, ``quota``, ``reserve``, ``project``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jupyter_tpu.emulator.cli.lifecycle_commands import duration
from jupyter_tpu.emulator.cli.options import BadValue, Command
from jupyter_tpu.emulator.cli.view_commands import (
    format_pool,
    format_quota,
    format_reservation,
    format_switch,
)
from jupyter_tpu.emulator.control.client import EmulatorControl

UNLIMITED = ("unlimited", "none")
EXAMPLE = ("us-east5-a", "v5p")
"""An example for the help of `reserve`: a zone, and a family that it offers. A test checks it."""

_LISTS = ("denied_permissions", "denied_locations", "allowlist", "stop_refused_for")
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("true", "on", "yes"), True),
    **dict.fromkeys(("false", "off", "no"), False),
    **dict.fromkeys(("none", "null"), None),
}


def number_or_unlimited(text: str) -> int | None:
    """Parse a number; return None for ``unlimited``. Raises ArgumentTypeError."""
    if text in UNLIMITED:
        return None
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor 'unlimited'")
    return int(text)


def steps(text: str) -> list[tuple[float, int | None]]:
    """Parse ``0:8,10m:0,1h:unlimited`` to [(0.0, 8), (600.0, 0), (3600.0, None)]. Raises ArgumentTypeError."""
    pairs = [step.partition(":") for step in text.split(",")]
    return [(duration(after), number_or_unlimited(chips)) for after, _, chips in pairs]


def _lines(answer: Mapping[str, Any], part: str, words: Callable[[Any], str], otherwise: str) -> Iterator[str]:
    yield from map(words, answer[part])
    if not answer[part]:
        yield otherwise


def _capacity_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    return _lines(answer, "capacity", format_pool, "Capacity is unlimited in every zone.")


def _stockout_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("zone", metavar="ZONE", help="such as us-central1-a")
    parser.add_argument(
        "family", metavar="FAMILY", nargs="?", default="", help="generation, such as v5e (default: all)"
    )
    parser.add_argument("--chips", type=int, metavar="N", help="number of chips left (default: 0)")
    parser.add_argument("--for", dest="for_s", type=duration, metavar="TIME", help="virtual time, such as 90s, 15m, 4h")
    parser.add_argument("--end", action="store_true", help="end the stock-out")


def _stockout(control: EmulatorControl, options: argparse.Namespace) -> Any:
    if options.end and (options.chips, options.for_s) != (None, None):
        raise BadValue("--end cannot be combined with --chips or --for.")
    # a stock-out with zero duration ends the current one
    for_s = 0.0 if options.end else options.for_s
    control.stock_out(options.zone, options.family, chips=options.chips or 0, for_s=for_s)
    return {"capacity": control.capacity()}


def _capacity_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("zone", metavar="ZONE", nargs="?", default="", help="such as us-central1-a (default: show all)")
    parser.add_argument("family", metavar="FAMILY", nargs="?", default="", help="generation, such as v5e")
    parser.add_argument(
        "chips", metavar="CHIPS", nargs="?", type=number_or_unlimited, default=(), help="a number, or 'unlimited'"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="vary the chips at random from 0 to CHIPS")
    parser.add_argument(
        "--script", type=steps, metavar="STEPS", help="chips over virtual time, such as 0:8,10m:0,1h:unlimited"
    )


def _capacity(control: EmulatorControl, options: argparse.Namespace) -> Any:
    if options.zone:
        # without a zone, the command only shows the capacity
        _set_capacity(control, options)
    return {"capacity": control.capacity()}


def _set_capacity(control: EmulatorControl, options: argparse.Namespace) -> None:
    if not options.family or (options.chips == () and options.script is None):
        raise BadValue("Give the zone, the family and the chips: capacity us-central1-a v5e 16 (or --script STEPS).")
    if options.script is not None:
        control.script_capacity(options.zone, options.family, options.script)
    else:
        control.set_capacity(options.zone, options.family, options.chips, seed=options.seed)


def _quota_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "quota_id",
        metavar="QUOTA_ID",
        nargs="?",
        default="",
        help="id of the quota (default: show all in use)",
    )
    parser.add_argument(
        "place", metavar="PLACE", nargs="?", default="", help="a zone, or a region if the quota counts per region"
    )
    parser.add_argument(
        "limit", metavar="LIMIT", nargs="?", type=number_or_unlimited, default=(), help="a number, or 'unlimited'"
    )


def _quota(control: EmulatorControl, options: argparse.Namespace) -> Any:
    if options.quota_id:
        if options.limit == ():
            raise BadValue(
                "Give the quota, the place and the limit: quota TPUV6EPerProjectPerZoneForTPUAPI us-east5-b 16."
            )
        control.set_quota(options.quota_id, options.place, options.limit)
    return {"quotas": control.quotas()}


def _quota_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    return _lines(answer, "quotas", format_quota, "No quota is limited or used.")


def _reserve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "reservation_id", metavar="NAME", nargs="?", default="", help="id of the reservation (default: show all)"
    )
    parser.add_argument("zone", metavar="ZONE", nargs="?", default="", help=f"such as {EXAMPLE[0]}")
    parser.add_argument("family", metavar="FAMILY", nargs="?", default="", help=f"generation, such as {EXAMPLE[1]}")
    parser.add_argument("chips", metavar="CHIPS", nargs="?", type=int, help="0 removes the reservation")


def _reserve(control: EmulatorControl, options: argparse.Namespace) -> Any:
    if options.reservation_id:
        if options.chips is None:
            raise BadValue(f"Give the name, the zone, the family and the chips: reserve mine {' '.join(EXAMPLE)} 64.")
        control.reserve(options.reservation_id, options.zone, options.family, options.chips)
    return {"reservations": control.reservations()}


def _reservation_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    return _lines(answer, "reservations", format_reservation, "The project has no reservation.")


def _project_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "switches", metavar="SWITCH=VALUE", nargs="*", help="true, false, none, a number, or a list with commas"
    )


def _project(control: EmulatorControl, options: argparse.Namespace) -> Any:
    switches = dict(map(switch, options.switches))
    return control.set_project(**switches) if switches else control.project()


def switch(text: str) -> tuple[str, Any]:
    """Parse ``denied_locations=us-east5-a,us-east5-b`` to ("denied_locations", ["us-east5-a", "us-east5-b"])."""
    name, is_given, value = text.partition("=")
    if not is_given:
        raise BadValue(f"{text!r} is not of the form SWITCH=VALUE.")
    # users write on, off and none instead of JSON's true, false and null
    if value.lower() in _WORDS:
        return name, _WORDS[value.lower()]
    if name in _LISTS:
        return name, [word for word in value.split(",") if word]
    return name, int(value) if value.isascii() and value.isdigit() else value


def _project_lines(switches: Mapping[str, Any]) -> Iterator[str]:
    return (format_switch(name, value) for name, value in switches.items())


COMMANDS = (
    Command(
        name="stockout",
        summary="Make a zone run out of capacity: creates and starts fail, and queued resources wait.",
        arguments=_stockout_arguments,
        perform=_stockout,
        format_lines=_capacity_lines,
    ),
    Command(
        name="capacity",
        summary="Show or set the number of chips of a generation in a zone: fixed, scripted or random.",
        arguments=_capacity_arguments,
        perform=_capacity,
        format_lines=_capacity_lines,
    ),
    Command(
        name="quota",
        summary="Show or set the limits of the project's quotas, per zone or region depending on the quota.",
        arguments=_quota_arguments,
        perform=_quota,
        format_lines=_quota_lines,
    ),
    Command(
        name="reserve",
        summary="Show, create or change the reservations of the project.",
        arguments=_reserve_arguments,
        perform=_reserve,
        format_lines=_reservation_lines,
    ),
    Command(
        name="project",
        summary="Show or change the project's switches: settings of its owner, its administrators and Google.",
        arguments=_project_arguments,
        perform=_project,
        format_lines=_project_lines,
        notes="Examples: `jupyter tpu emulator project api_enabled=false`, `jupyter tpu emulator project "
        "denied_permissions=tpu.nodes.list,tpu.nodes.create`, `jupyter tpu emulator project "
        "allowlist=v5e,v6e@us-east5-b` and `jupyter tpu emulator project creates_per_minute=none`.",
    ),
)
