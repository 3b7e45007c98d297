"""Commands that change a running emulator: ``preempt``, ``maintenance``, ``metrics``, ``clock`` and ``reset``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from jupyter_tpu.emulator.cli.options import BadValue, Command, number
from jupyter_tpu.emulator.cli.view_commands import format_clock, format_maintenance
from jupyter_tpu.emulator.control.client import EmulatorControl
from jupyter_tpu.emulator.runtime_metrics.metrics_script import LIES

NODE_HELP = "short or full name of the node"


def _preempt_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE", help=NODE_HELP)
    parser.add_argument(
        "--notice",
        type=number,
        default=0.0,
        metavar="SECONDS",
        help="announce the pre-emption to the workers this many virtual seconds in advance",
    )


def _preempt(control: EmulatorControl, options: argparse.Namespace) -> Any:
    control.preempt(options.node, notice_s=options.notice)
    return {"node": options.node, "notice_s": options.notice}


def _format_preempt(done: Mapping[str, Any]) -> Iterator[str]:
    if done["notice_s"]:
        yield f"{done['node']} will be pre-empted in {done['notice_s']:g} virtual seconds."
    else:
        yield f"{done['node']} is pre-empted: it is no longer billed, and can only be deleted."


def _maintenance_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "node", metavar="NODE", nargs="?", default="", help=f"{NODE_HELP}; default: show scheduled maintenance"
    )
    parser.add_argument(
        "--kind",
        choices=("SCHEDULED", "UNSCHEDULED"),
        default="SCHEDULED",
        help="SCHEDULED: announced (the default); UNSCHEDULED: sudden",
    )
    parser.add_argument(
        "--in",
        dest="in_s",
        type=number,
        metavar="SECONDS",
        help="virtual seconds until the maintenance begins (default: seven days, or 0 if UNSCHEDULED)",
    )


def _maintenance(control: EmulatorControl, options: argparse.Namespace) -> Any:
    if options.node:
        control.announce_maintenance(options.node, options.kind, options.in_s)
    return {"maintenance": control.maintenance()}


def _format_maintenance(answer: Mapping[str, Any]) -> Iterator[str]:
    yield from map(format_maintenance, answer["maintenance"])
    if not answer["maintenance"]:
        yield "No maintenance is planned."


def _metrics_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE", help=NODE_HELP)
    parser.add_argument("--worker", type=int, metavar="N", help="only this worker of the slice")
    for option, meaning in (
        ("--duty", "duty cycle in percent, of each chip"),
        ("--memory", "memory in use, in percent, of each device"),
        ("--bandwidth", "memory bandwidth in use, in percent, of each device"),
        ("--idle", "seconds for which each device has been idle"),
    ):
        parser.add_argument(
            option, type=number, nargs="+", metavar="X", help=f"{meaning}; if you give fewer values, they are repeated"
        )
    parser.add_argument("--lie", choices=tuple(LIES), help="simulate a fault of libtpu's metrics")


def _metrics(control: EmulatorControl, options: argparse.Namespace) -> Any:
    metrics = {
        "duty_percent": options.duty,
        "memory_percent": options.memory,
        "bandwidth_percent": options.bandwidth,
        "idle_s": options.idle,
        "lie": options.lie,
    }
    # omit unset options from the request: without any option, the control API measures the metrics again
    given = {name: value for name, value in metrics.items() if value is not None}
    return control.set_metrics(options.node, options.worker, **given)


def _format_metrics(done: Mapping[str, Any]) -> Iterator[str]:
    workers = ", ".join(map(str, done["workers"]))
    what = "these metrics while a process uses them" if done["laid_down"] else "measured values"
    yield f"The chips of {done['node']}, worker {workers}, report {what}."


def _clock_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=number, metavar="N", help="virtual seconds per real second")
    parser.add_argument("--advance", type=duration, metavar="TIME", help="jump ahead: seconds, or 90s, 15m, 4h, 2d")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--pause", action="store_true", help="stop virtual time, except for --advance")
    pace.add_argument("--resume", action="store_true", help="resume virtual time")


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def duration(text: str) -> float:
    """Parse a duration, such as ``4h``, into seconds; a plain number is in seconds. Raises ArgumentTypeError."""
    count, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1.0)
    try:
        return number(count) * unit
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90, 90s, 15m, 4h or 2d") from None


def _clock(control: EmulatorControl, options: argparse.Namespace) -> Any:
    # pause before a jump: with --pause --advance, time must not run in between
    if options.pause or options.resume:
        control.pause() if options.pause else control.resume()
    if options.scale is not None:
        control.set_time_scale(options.scale)
    if options.advance is not None:
        control.advance(options.advance)
    return control.clock()


def _format_clock(clock: Mapping[str, Any]) -> Iterator[str]:
    yield f"{format_clock(clock)}."


def _reset_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", "-y", action="store_true", help="confirm: this deletes all nodes, workers and files")


def _reset(control: EmulatorControl, options: argparse.Namespace) -> Any:
    # even scripts must confirm, because a reset can't be undone
    if not options.yes:
        raise BadValue("A reset deletes all emulated nodes, their workers and their files; confirm with --yes.")
    control.reset()
    return control.info()


def _format_reset(info: Mapping[str, Any]) -> Iterator[str]:
    yield f"Project {info['project']} is empty: no nodes, no faults, no limits, nothing billed."


COMMANDS = (
    Command(
        name="preempt",
        summary="Pre-empt a node, as Google pre-empts spot nodes: it becomes PREEMPTED, and its workers are killed.",
        arguments=_preempt_arguments,
        perform=_preempt,
        format_lines=_format_preempt,
    ),
    Command(
        name="maintenance",
        summary="Announce or begin maintenance of a node's host, or show scheduled maintenance.",
        arguments=_maintenance_arguments,
        perform=_maintenance,
        format_lines=_format_maintenance,
    ),
    Command(
        name="metrics",
        summary="Set the metrics reported by the chips of a node; without options, report measured values again.",
        arguments=_metrics_arguments,
        perform=_metrics,
        format_lines=_format_metrics,
        notes="Metrics are reported only while a process is using the chips.",
    ),
    Command(
        name="clock",
        summary="Show or set virtual time: change its speed, pause it, or jump ahead.",
        arguments=_clock_arguments,
        perform=_clock,
        format_lines=_format_clock,
        notes="States, quotas, deadlines, pre-emption and the ledger follow virtual time; during a jump, each "
        "event happens at its scheduled time. The scale and a pause survive a restart of the emulator.",
    ),
    Command(
        name="reset",
        summary="Empty the emulated project: nodes, queued resources, faults, limits, switches and the ledger.",
        arguments=_reset_arguments,
        perform=_reset,
        format_lines=_format_reset,
    ),
)
