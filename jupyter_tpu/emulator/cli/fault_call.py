"""The subcommands ``call``, ``list``, ``clear`` and ``worker`` of ``jupyter tpu emulator fault``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jupyter_tpu.emulator.api_faults.kinds import KINDS
from jupyter_tpu.emulator.cli.options import Command, number
from jupyter_tpu.emulator.cli.view_commands import format_fault
from jupyter_tpu.emulator.control.client import EmulatorControl
from jupyter_tpu.emulator.workers.worker_faults import MEANINGS

_OPTIONS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "target": (str, "only calls that name this node (alone or in full) or this zone"),
    "times": (int, "number of calls to affect (default: 1; some kinds last until cleared)"),
    "nth": (int, "first call to affect, counted from now (default: 1)"),
    "probability": (number, "probability that a call is affected (default: 1)"),
    "seed": (int, "seed that makes the draws repeatable (default: random; `fault list` shows it)"),
    "code": (str, "code of the refusal: HTTP (429, 500, 503, 504) or gRPC (UNAVAILABLE, 14)"),
    "message": (str, "text of the refusal (default: the text of Google's APIs for the code)"),
    "seconds": (number, "duration; its meaning depends on the kind"),
    "quota_id": (str, "quota: id of the exceeded quota"),
    "limit": (int, "quota, rate: the limit that is exceeded"),
}


def _call_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "method", metavar="METHOD", help="such as CreateNode; '*' for any method that this kind of fault can affect"
    )
    parser.add_argument(
        "kind", metavar="KIND", help="; ".join(f"{kind.name}: {kind.meaning}" for kind in KINDS.values())
    )
    for name, (type_, meaning) in _OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type_, metavar=name.upper(), help=meaning)
    parser.add_argument("--lasting", action="store_true", help="keep the fault until it is cleared, instead of --times")
    parser.add_argument(
        "--applied", action="store_true", help="perform the call, although the caller gets an error or no response"
    )


def _call(control: EmulatorControl, options: argparse.Namespace) -> Any:
    given = {name: getattr(options, name) for name in _OPTIONS if getattr(options, name) is not None}
    if options.lasting:
        given["times"] = None
    if options.applied:
        given["applied"] = True
    # the control API distinguishes codes and names by their type
    if given.get("code", "").isdigit():
        given["code"] = int(given["code"])
    control.add_fault(options.method, options.kind, **given)
    return {"faults": control.faults()}


def _clear_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "number", metavar="NUMBER", nargs="?", type=int, help="only this fault, by its number in `fault list`"
    )


def _clear(control: EmulatorControl, options: argparse.Namespace) -> Any:
    control.clear_faults(options.number)
    return {"faults": control.faults()}


def _list(control: EmulatorControl, _: argparse.Namespace) -> Any:
    return {"faults": control.faults()}


def _format(answer: Mapping[str, Any]) -> Iterator[str]:
    yield from map(format_fault, answer["faults"])
    if not answer["faults"]:
        yield "No pending faults."


def _kinds_listed() -> str:
    kinds = "\n".join(f"- {kind.name}: {kind.meaning}" for kind in KINDS.values())
    return f"Kinds of faults (at most one affects a call, in addition to latency and clock skew):\n\n{kinds}"


def _worker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE", help="short or full name of the node")
    parser.add_argument(
        "verb", metavar="VERB", nargs="?", default="", help=f"{', '.join(MEANINGS)}; without one: show the faults"
    )
    parser.add_argument("--worker", type=int, default=0, metavar="ID", help="the worker (default: 0)")
    parser.add_argument(
        "--other", type=int, metavar="ID", help="for cut: the other worker, which it can no longer reach"
    )
    parser.add_argument("--ahead", type=float, metavar="SECONDS", help="for clock: how far its clock is ahead")
    parser.add_argument("--factor", type=int, metavar="N", help="for slow: how many times as long its processes take")


def _worker(control: EmulatorControl, options: argparse.Namespace) -> Any:
    given = {"other_worker_id": options.other, "factor": options.factor, "ahead_s": options.ahead}
    if options.verb:
        fields = {name: value for name, value in given.items() if value is not None}
        control.fault_worker(options.node, options.verb, options.worker, **fields)
    return {"workers": [{"faults": each["faults"]} for each in control.workers(options.node)]}


def _format_workers(answer: Mapping[str, Any]) -> Iterator[str]:
    for worker_id, worker in enumerate(answer["workers"]):
        faults = ", ".join(" ".join(f"{name}={value}" for name, value in each.items()) for each in worker["faults"])
        yield f"worker {worker_id}: {faults.replace('verb=', '') or 'no faults'}"


COMMANDS = (
    Command(
        name="fault call",
        summary="Make API calls fail: they are refused or slow, or their responses are lost or invalid.",
        arguments=_call_arguments,
        perform=_call,
        format_lines=_format,
        notes=_kinds_listed(),
    ),
    Command(name="fault list", summary="Show pending faults.", perform=_list, format_lines=_format),
    Command(
        name="fault clear",
        summary="Remove one pending fault, or all of them.",
        arguments=_clear_arguments,
        perform=_clear,
        format_lines=_format,
    ),
    Command(
        name="fault worker",
        summary="Make a worker of a node fail: kill or slow its processes, set its clock wrong, or cut its network.",
        arguments=_worker_arguments,
        perform=_worker,
        format_lines=_format_workers,
        notes="Verbs:\n\n" + "\n".join(f"- {verb}: {meaning}" for verb, meaning in MEANINGS.items()),
    ),
)
