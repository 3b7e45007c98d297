"""``jupyter tpu emulator fault``: make calls to a running emulator fail, or break its links to workers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any

from jupyter_tpu.emulator.cli.fault_call import COMMANDS
from jupyter_tpu.emulator.cli.options import Command, add_emulator_options
from jupyter_tpu.emulator.control.client import ADDRESS_VARIABLE, ControlRefused, EmulatorControl
from jupyter_tpu.emulator.network_faults.verbs import MEANINGS, link_fault_from_json
from jupyter_tpu.standard_streams import write_answer

CALLS: Mapping[str, Command] = {command.name.rpartition(" ")[2]: command for command in COMMANDS}
"""The commands for faults of API calls; each has its own parser."""

_OPTIONS: Mapping[str, tuple[type, str]] = {
    "direction": (str, "up (to the worker), down, or both (the default)"),
    "ms": (float, "latency: milliseconds each way"),
    "jitter_ms": (float, "latency: vary by up to this many milliseconds"),
    "kib_per_s": (float, "rate: KiB per second"),
    "bytes": (int, "slice: bytes in each piece"),
    "gap_ms": (float, "slice: milliseconds between pieces"),
    "after": (int, "cut: bytes that still arrive"),
    "at": (int, "corrupt: which byte, counted from now"),
    "times": (int, "cut, corrupt: number of connections to affect (default: 1)"),
    "for_s": (float, "seconds until a lasting fault ends"),
}


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of the command ``fault``."""
    options = argparse.ArgumentParser(
        prog="jupyter tpu emulator fault",
        description="Inject faults into the API calls or links of a running emulator.",
    )
    kinds = options.add_subparsers(metavar="KIND", dest="kind", required=True)
    kinds.add_parser(
        "link", help="the SSH connections to a node's workers", parents=[link_parser()], epilog=link_parser().epilog
    )
    for name, command in CALLS.items():
        # these parsers are only for the list in --help: `main` passes the commands to their own parsers
        kinds.add_parser(name, help=command.summary, add_help=False)
    return options


def link_parser() -> argparse.ArgumentParser:
    """Return the argument parser of the command ``fault link``."""
    link = argparse.ArgumentParser(
        add_help=False,
        description="Simulate faults of the SSH connections to a node's workers. The emulator must run with "
        "--link-faults, as in the demo.",
        epilog=" ".join(f"{verb}: {meaning}." for verb, meaning in MEANINGS.items()),
    )
    link.add_argument("node", metavar="NODE", help="short or full name of the node")
    link.add_argument(
        "verb",
        metavar="VERB",
        nargs="?",
        default="",
        help=f"{', '.join(MEANINGS)}; default: show the faults",
    )
    link.add_argument("--worker", type=int, metavar="ID", help="only this worker (default: all)")
    for name, (kind, meaning) in _OPTIONS.items():
        link.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=name.upper(), help=meaning)
    add_emulator_options(link)
    return link


def main(argv: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    if argv and argv[0] in CALLS:
        return CALLS[argv[0]].main(argv[1:])
    options = parser().parse_args(argv)
    if not options.emulator:
        return _complain(f"No emulator given: pass --emulator URL, or set {ADDRESS_VARIABLE}.")
    given = {name: getattr(options, name) for name in _OPTIONS if getattr(options, name) is not None}
    try:
        if options.verb:
            # check here first: the error is the same and needs no running emulator
            link_fault_from_json({"verb": options.verb, **given})
    except ValueError as error:
        return _complain(f"Not a valid fault: {error}.")
    try:
        links = _perform(EmulatorControl(options.emulator), options, given)
    except ControlRefused as refusal:
        return _complain(refusal.message)
    except (OSError, ValueError, HTTPException) as error:
        return _complain(f"No emulator responds at {options.emulator}: {error}")
    if not links:
        return _complain(
            f"There is no node {options.node}, or no such worker, or its emulator runs without --link-faults."
        )
    return write_answer(json.dumps({"links": links}) + "\n" if options.json else "".join(map(_line, links)))


def _perform(control: EmulatorControl, options: argparse.Namespace, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    if options.verb:
        return control.fault_link(options.node, options.verb, worker_id=options.worker, **given)
    return [link for link in control.links(options.node) if options.worker in (None, link["worker_id"])]


def _line(link: Mapping[str, Any]) -> str:
    faults = ", ".join(map(_fault_text, link["faults"]))
    return f"{link['node']} worker {link['worker_id']}: {link['connections']} connections, {faults or 'no faults'}\n"


def _fault_text(fault: Mapping[str, Any]) -> str:
    """Format a fault of a link, such as ``latency up ms=50``."""
    values = (f"{name}={value:g}" for name, value in fault.items() if isinstance(value, int | float) and value)
    return " ".join([fault["verb"], fault.get("direction", ""), *values]).replace("  ", " ").strip()


def _complain(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return 1
