"""The commands `ps` and `release`: list or terminate the processes that use a node's chips."""

from __future__ import annotations

import argparse
import asyncio
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jupyter_tpu.cli.on_node.node_chips import holder_text, node_chips
from jupyter_tpu.cli.terminal import is_confirmed, message_of, plain, say, say_json, warn
from jupyter_tpu.commands.shared import FORCE_NEEDS_PID
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.i18n import _
from jupyter_tpu.metrics import Holder

if TYPE_CHECKING:
    from jupyter_tpu.kernels.connections.metrics_pool import Answer


def run_ps(options: argparse.Namespace) -> int:
    """Print the processes that use the chips; return exit code 1 if a worker didn't respond."""
    answers = asyncio.run(_list_processes(options))
    views = [_worker_view(answer) for answer in answers]
    if options.json:
        say_json({"workers": views})
    else:
        for view in views:
            _say_worker(view)
    return 1 if any(view["error"] for view in views) else 0


def run_release(options: argparse.Namespace) -> int:
    """Terminate processes that use the chips; return exit code 1 if any remains."""
    # without a PID, this would kill any process of another user on the chips
    if options.force and options.pid is None:
        raise BadInput(FORCE_NEEDS_PID)
    view = asyncio.run(_release(options))
    if options.json:
        say_json(view)
    else:
        _say_released(view)
    return 0 if is_released(view, options.pid) else 1


def is_released(view: Mapping[str, Any], pid: int | None) -> bool:
    """Return whether process `pid` has exited or, without a pid, whether all processes have released the chips."""
    return not view["left"] if pid is None else pid in [holder["pid"] for holder in view["freed"]]


async def _list_processes(options: argparse.Namespace) -> list[Answer]:
    async with node_chips(options) as chips:
        return await chips.call("who", {})


async def _release(options: argparse.Namespace) -> dict[str, Any]:
    from jupyter_tpu.kernels.metrics_views import holders_of, release_view

    request: dict[str, Any] = {"force": options.force, "by": f"`jupyter tpu release` on {platform.node()}"}
    if options.pid is not None:
        request["pid"] = options.pid
    async with node_chips(options) as chips:
        if not options.yes:
            answer = await chips.call_worker(options.worker, "who", {})
            meant = [one for one in holders_of(answer["holders"]) if _is_meant(options, one)]
            _require_consent(options, meant)
            if meant or options.pid is None:  # if the PID doesn't use the chips, the agent's error is better
                # release only the confirmed processes, not those that started later; `since` detects a reused PID
                request["processes"] = [{"pid": one.pid, "since": one.since} for one in meant]
        return release_view(await chips.call_worker(options.worker, "free", request))


def _is_meant(options: argparse.Namespace, holder: Holder) -> bool:
    return holder.is_own_user if options.pid is None else holder.pid == options.pid


def _require_consent(options: argparse.Namespace, meant: list[Holder]) -> None:
    named = "; ".join(holder_text(holder) for holder in meant) or _("no known process")
    if not is_confirmed(_("End {named}? Variables are lost, outputs are kept.", named=named)):
        raise BadInput(
            Text("Releasing the chips of {node} was not confirmed.", node=options.node),
            exists=Text("The chips are used by {named}.", named=named),
            hint="Answer y, or add --yes.",
        )


def _worker_view(answer: Answer) -> dict[str, Any]:
    from jupyter_tpu.kernels.metrics_views import tpu_processes_view

    view: dict[str, Any] = {"worker_id": answer.worker_id, "error": answer.error.to_json() if answer.error else None}
    return view | (
        tpu_processes_view(answer.content) if answer.content is not None else {"holders": [], "lock_file": None}
    )


def _say_worker(view: Mapping[str, Any]) -> None:
    name = _("worker {worker}", worker=view["worker_id"])
    if view["error"]:
        warn(_("{topic}: {text}", topic=name, text=message_of(view["error"])))
        return
    holders = [Holder.from_json(each) for each in view["holders"]]
    for holder in holders:
        say(_("{topic}: {text}", topic=name, text=holder_text(holder)))
    if not holders:
        text = _(view["reason"]) or _("no process is using the chips")
        say(plain(_("{topic}: {text}", topic=name, text=text)))
    lock = view["lock_file"]
    # if its process is killed, libtpu leaves its lock file behind, which another user can't open
    if lock["is_there"] and not lock["is_held"]:
        say(plain(_("  {path} is a leftover lock file; it blocks only other users", path=lock["path"])))


def _say_released(view: Mapping[str, Any]) -> None:
    for holder in view["freed"]:
        say(_("ended {process}", process=holder_text(Holder.from_json(holder))))
    for holder in view["left"]:
        say(_("still running: {process}", process=holder_text(Holder.from_json(holder))))
    if view["message"]:
        say(plain(_(view["message"])))
