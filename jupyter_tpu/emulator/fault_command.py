"""``jupyter tpu emulator fault``: break a running emulator's links by hand."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.error import URLError

from jupyter_tpu.emulator.control import ControlRefused, EmulatorControl
from jupyter_tpu.emulator.fault_proxy_verbs import MEANINGS, link_fault_from_json

ADDRESS_VARIABLE = "JUPYTER_TPU_EMULATOR"

_OPTIONS: Mapping[str, tuple[type, str]] = {
    "direction": (str, "up (to the worker), down, or both (the default)"),
    "ms": (float, "latency: milliseconds each way"),
    "jitter_ms": (float, "latency: up to so many milliseconds more or less"),
    "kib_per_s": (float, "rate: KiB per second"),
    "bytes": (int, "slice: bytes of a piece"),
    "gap_ms": (float, "slice: milliseconds between pieces"),
    "after": (int, "cut: bytes that still get through"),
    "at": (int, "corrupt: which byte, counted from now"),
    "times": (int, "cut, corrupt: how many connections it hits (default: 1)"),
    "for_s": (float, "seconds after which a lasting fault ends by itself"),
}


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="jupyter tpu emulator fault", description="Break a running emulator by hand."
    )
    kinds = options.add_subparsers(metavar="KIND", required=True)
    kinds.add_parser(
        "link", help="the SSH connections to a node's workers", parents=[link_parser()], epilog=link_parser().epilog
    )
    return options


def link_parser() -> argparse.ArgumentParser:
    link = argparse.ArgumentParser(
        add_help=False,
        description="Break the SSH connections to a node's workers, in an emulator that was started with --link-faults "
        "(the demo's is).",
        epilog=" ".join(f"{verb}: {meaning}." for verb, meaning in MEANINGS.items()),
    )
    link.add_argument("node", metavar="NODE", help="name of the node, alone or in full")
    link.add_argument(
        "verb", metavar="VERB", nargs="?", default="", help=f"{', '.join(MEANINGS)}; without one: what is in force"
    )
    link.add_argument("--worker", type=int, metavar="ID", help="only this worker (default: all)")
    for name, (kind, meaning) in _OPTIONS.items():
        link.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=name.upper(), help=meaning)
    link.add_argument(
        "--emulator",
        default=os.environ.get(ADDRESS_VARIABLE, ""),
        metavar="URL",
        help=f"REST address of the emulator, as it prints it (default: ${ADDRESS_VARIABLE})",
    )
    link.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    return link


def main(argv: Sequence[str]) -> int:
    """Returns the exit status."""
    options = parser().parse_args(argv)
    if not options.emulator:
        return _complain(f"Say which emulator: --emulator URL, or set {ADDRESS_VARIABLE}.")
    given = {name: getattr(options, name) for name in _OPTIONS if getattr(options, name) is not None}
    try:
        if options.verb:
            link_fault_from_json({"verb": options.verb, **given})
    except ValueError as error:
        return _complain(f"That is no fault: {error}.")
    try:
        links = _perform(EmulatorControl(options.emulator), options, given)
    except ControlRefused as refusal:
        return _complain(_message(str(refusal)))
    except (URLError, ValueError) as error:
        return _complain(f"No emulator answers at {options.emulator}: {error}")
    if not links:
        return _complain(
            f"There is no node {options.node}, or no such worker, or its emulator runs without --link-faults."
        )
    sys.stdout.write(json.dumps({"links": links}) + "\n" if options.json else "".join(map(_line, links)))
    return 0


def _perform(control: EmulatorControl, options: argparse.Namespace, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    if options.verb:
        return control.fault_link(options.node, options.verb, worker_id=options.worker, **given)
    return [link for link in control.links(options.node) if options.worker in (None, link["worker_id"])]


def _line(link: Mapping[str, Any]) -> str:
    faults = ", ".join(map(_fault_text, link["faults"]))
    return f"{link['node']} worker {link['worker_id']}: {link['connections']} connections, {faults or 'no faults'}\n"


def _fault_text(fault: Mapping[str, Any]) -> str:
    """``latency up ms=50``"""
    told = (f"{name}={value:g}" for name, value in fault.items() if isinstance(value, int | float) and value)
    return " ".join([fault["verb"], fault.get("direction", ""), *told]).replace("  ", " ").strip()


def _message(refusal: str) -> str:
    """What the control API said, without its wrapping."""
    try:
        return str(json.loads(refusal)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return refusal


def _complain(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return 1
