"""The commands `ps` and `release`: list or terminate the processes that use a node's chips."""

from __future__ import annotations

import argparse
import asyncio
import platform
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jupyter_tpu.cli.on_node.node_chips import holder_text, node_chips
from jupyter_tpu.cli.terminal import echo, echo_json, is_confirmed, message_of, plain, warn
from jupyter_tpu.commands.shared import FORCE_NEEDS_PID
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.i18n import _
from jupyter_tpu.metrics import Holder

if TYPE_CHECKING:
    from jupyter_tpu.kernels.connections.metrics_pool import Answer

NO_PROCESS = "No process uses the chips."
"""The agent's message if there is no process to release the TPU from."""


def run_ps(options: argparse.Namespace) -> int:
    """Print the processes that use the chips; return exit code 1 if a worker didn't respond."""
    from jupyter_tpu.kernels.metrics_views import name_kernels_alike

    answers = asyncio.run(_list_processes(options))
    views = [_worker_view(answer) for answer in answers]
    name_kernels_alike(holder for view in views for holder in view["holders"])
    if options.json:
        echo_json({"workers": views})
    else:
        for view in views:
            _show_worker(view)
    return 1 if any(view["error"] for view in views) else 0


def run_release(options: argparse.Namespace) -> int:
    """Terminate processes that use the chips; return exit code 1 if any remains."""
    # without a PID, this would kill any process of another user on the chips
    if options.force and options.pid is None:
        raise BadInput(FORCE_NEEDS_PID)
    view = asyncio.run(_release(options))
    if options.json:
        echo_json(view)
    else:
        _show_released(view)
    return 0 if is_released(view, options.pid) else 1


def is_released(view: Mapping[str, Any], pid: int | None) -> bool:
    """Return whether process `pid` has exited or, without a pid, whether all processes have released the chips."""
    return not view["left"] if pid is None else pid in [holder["pid"] for holder in view["freed"]]


async def _list_processes(options: argparse.Namespace) -> list[Answer]:
    async with node_chips(options) as chips:
        return await chips.call("who", {})


async def _release(options: argparse.Namespace) -> dict[str, Any]:
    """Release the chips of one worker or all; return the processes that have exited and those that remain."""
    from jupyter_tpu.kernels.metrics_views import holders_of

    request: dict[str, Any] = {"force": options.force, "by": f"`jupyter tpu release` on {platform.node()}"}
    if options.pid is not None:
        request["pid"] = options.pid
    async with node_chips(options) as chips:
        # a PID belongs to a process on a single worker: worker 0, unless the user names another one
        one = 0 if options.worker is None and options.pid is not None else options.worker
        workers = chips.worker_ids if one is None else (one,)
        requests = dict.fromkeys(workers, request)
        if not options.yes:
            answers = await asyncio.gather(*(chips.call_worker(worker, "who", {}) for worker in workers))
            meant = {
                worker: [each for each in holders_of(answer["holders"]) if _is_meant(options, each)]
                for worker, answer in zip(workers, answers, strict=True)
            }
            _require_consent(options, meant)
            if (
                any(meant.values()) or options.pid is None
            ):  # if the PID doesn't use the chips, the agent's error explains it better
                # release only the confirmed processes, not those that started later; `since` detects a reused PID
                requests = {
                    worker: {**request, "processes": [{"pid": each.pid, "since": each.since} for each in found]}
                    for worker, found in meant.items()
                }
        answers = await asyncio.gather(*(chips.call_worker(worker, "free", requests[worker]) for worker in workers))
    return _released_view(dict(zip(workers, answers, strict=True)))


def _released_view(answers: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    from jupyter_tpu.kernels.metrics_views import release_view

    view: dict[str, Any] = {"freed": [], "left": [], "message": ""}
    messages: dict[str, None] = {}
    for worker, answer in answers.items():
        released = release_view(answer)
        for name in ("freed", "left"):
            view[name] += [{**holder, "worker_id": worker} for holder in released[name]]
        if released["message"]:
            messages[released["message"]] = None
    # print a message that several workers share only once, and print "no process" only if no worker has one
    if view["freed"] or view["left"]:
        messages.pop(NO_PROCESS, None)
    return {**view, "message": " ".join(messages)}


def _is_meant(options: argparse.Namespace, holder: Holder) -> bool:
    return holder.is_own_user if options.pid is None else holder.pid == options.pid


def _require_consent(options: argparse.Namespace, meant: Mapping[int, Sequence[Holder]]) -> None:
    texts = [_on_worker(worker, holder, len(meant)) for worker, found in meant.items() for holder in found]
    named = "; ".join(texts) or _("no known process")
    if not is_confirmed(_("End {named}? Variables are lost, outputs are kept.", named=named)):
        raise BadInput(
            Text("Releasing the chips of {node} was not confirmed.", node=options.node),
            exists=Text("The chips are used by {named}.", named=named),
            hint="Answer y, or add --yes.",
        )


def _on_worker(worker: int, holder: Holder, of_workers: int) -> str:
    text = holder_text(holder)
    if of_workers == 1:
        return text
    return _("{topic}: {text}", topic=_("worker {worker}", worker=worker), text=text)


def _worker_view(answer: Answer) -> dict[str, Any]:
    from jupyter_tpu.kernels.metrics_views import tpu_processes_view

    view: dict[str, Any] = {"worker_id": answer.worker_id, "error": answer.error.to_json() if answer.error else None}
    return view | (
        tpu_processes_view(answer.content) if answer.content is not None else {"holders": [], "lock_file": None}
    )


def _show_worker(view: Mapping[str, Any]) -> None:
    name = _("worker {worker}", worker=view["worker_id"])
    if view["error"]:
        warn(_("{topic}: {text}", topic=name, text=message_of(view["error"])))
        return
    holders = [Holder.from_json(each) for each in view["holders"]]
    for holder in holders:
        echo(_("{topic}: {text}", topic=name, text=holder_text(holder)))
    if not holders:
        text = _(view["reason"]) or _("no process is using the chips")
        echo(plain(_("{topic}: {text}", topic=name, text=text)))
    lock = view["lock_file"]
    # if its process is killed, libtpu leaves its lock file behind, which another user can't open
    if lock["is_there"] and not lock["is_held"]:
        echo(plain(_("  {path} is a leftover lock file; it blocks only other users", path=lock["path"])))


def _show_released(view: Mapping[str, Any]) -> None:
    of_workers = len({holder["worker_id"] for name in ("freed", "left") for holder in view[name]})
    for name, template in (("freed", Text("ended {process}")), ("left", Text("still running: {process}"))):
        for holder in view[name]:
            text = _on_worker(holder["worker_id"], Holder.from_json(holder), of_workers)
            echo(_(template, process=text))
    if view["message"]:
        echo(plain(_(view["message"])))
