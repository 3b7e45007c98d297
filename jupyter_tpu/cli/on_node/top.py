"""The command `top`: show the load of a node's chips, once or every second."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from typing import Any

from jupyter_tpu.cli.on_node.node_chips import PATIENCE_S, NodeChips, holder_text, node_chips
from jupyter_tpu.cli.terminal import echo, echo_json, message_of, plain, table_lines
from jupyter_tpu.i18n import _
from jupyter_tpu.metrics import UNKNOWN, Host, Sample
from jupyter_tpu.sample_table import TITLES, bytes_text, chips_table, percent_text

INTERVAL_S = 1.0
"""Seconds between two updates of the screen. The agent takes one sample per second."""
_CLEAR = "\x1b[H\x1b[2J"  # cursor to the top left, then erase the screen


def run_top(options: argparse.Namespace) -> int:
    """Show the load of the chips; return exit code 1 if a worker didn't respond."""
    return 0 if asyncio.run(_top(options)) else 1


async def _top(options: argparse.Namespace) -> bool:
    """Show the load once; return whether all workers responded."""
    async with node_chips(options) as chips:
        view = await _view(chips, PATIENCE_S)
        if options.json:
            echo_json(view)
        elif options.once or not sys.stdout.isatty():
            echo("\n".join(screen(chips.node.name.node_id, view)))
        else:
            await _repeat(chips, view)
        return bool(view["is_complete"])


async def _repeat(chips: NodeChips, view: dict[str, Any]) -> None:
    """Refresh the screen every second until Ctrl-C."""
    while True:
        echo(_CLEAR + "\n".join([*screen(chips.node.name.node_id, view), "", _("Press Ctrl-C to quit.")]))
        await asyncio.sleep(INTERVAL_S)
        view = await _view(chips, None)  # don't wait, so that an unresponsive worker doesn't freeze the screen


async def _view(chips: NodeChips, patience_s: float | None) -> dict[str, Any]:
    from jupyter_tpu.kernels.metrics_views import metrics_view

    answers = await chips.call("metrics", {}, patience_s)
    return metrics_view(answers, chips.node.accelerator_type, time.time())


# -- the output


def screen(node_id: str, view: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that display a view from `metrics_view`."""
    yield plain(
        _(
            "{node} ({type}) at {time}",
            node=node_id,
            type=view["accelerator_type"] or _("type unknown"),
            time=_clock(view["as_of"]),
        )
    )
    for worker in view["workers"]:
        yield ""
        yield from _worker(worker, view["as_of"])


def _worker(worker: dict[str, Any], now: float) -> Iterator[str]:
    hostname = f" {worker['hostname']}" if worker["hostname"] else ""
    if worker["sample"] is None:
        yield plain(
            _(
                "worker {worker}{hostname}: {text}",
                worker=worker["worker_id"],
                hostname=hostname,
                text=message_of(worker["error"]) if worker["error"] else _("no data"),
            )
        )
        return
    sample = Sample.from_json(worker["sample"])
    yield plain(
        _("worker {worker}{hostname}: {text}", worker=worker["worker_id"], hostname=hostname, text=_host(sample.host))
    )
    if worker["error"]:
        # the worker isn't responding, so show its last sample and the age of the sample
        yield plain(
            _(
                "  last updated {seconds} s ago: {message}",
                seconds=f"{now - worker['as_of']:.0f}",
                message=message_of(worker["error"]),
            )
        )
    yield from _chips(sample)
    for holder in sample.holders:
        yield _("  used by {holder}", holder=holder_text(holder))


def _chips(sample: Sample) -> Iterator[str]:
    if sample.state != "measured":
        yield plain(_("  {topic}: {text}", topic=_(sample.state), text=_(sample.reason)))
        return
    table = chips_table(sample)
    for line in table_lines([_(title.upper()) for title in table.header], table.rows):
        yield f"  {line}"
    for line in sample.unknown_lines(TITLES):
        yield plain(f"  {line}")


def _host(host: Host) -> str:
    return _(
        "CPU {percent} of {cpus}, memory {memory}, disk {disk}",
        percent=_(percent_text(host.cpu_percent)),
        cpus=host.cpus or _(UNKNOWN),
        memory=bytes_text(host.memory_used_bytes, host.memory_total_bytes),
        disk=bytes_text(host.disk_used_bytes, host.disk_total_bytes),
    )


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
