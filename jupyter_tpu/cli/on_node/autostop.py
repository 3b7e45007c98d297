"""The commands `autostop` and `extend`: auto-stop rules of nodes, and keeping one running."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from jupyter_tpu.autostop import KeepRunning
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import note, plain, say, say_json, say_table, warn
from jupyter_tpu.commands.extension import extension
from jupyter_tpu.commands.grammar import OFF
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import BadInput
from jupyter_tpu.fleet.autostop.views import autostop_status_view, autostop_view

if TYPE_CHECKING:
    from jupyter_tpu.fleet.autostop.controller import AutostopController, AutostopStatus
    from jupyter_tpu.models import Node


_HEADER = ("NODE", "ZONE", "NOW", "IDLE", "SESSION", "ACTION", "ENDS", "GUARD")
# bounds a command on a worker that never answers; a first connection over a slow network takes some seconds
_ANSWER_S = 60.0


def run_autostop(options: argparse.Namespace) -> int:
    """Show the auto-stop rules of one node or all, or change those of one."""
    changes = _changes(options)
    if changes and not options.node:
        raise BadInput("No node was given.", hint="Use jupyter tpu autostop NODE --idle 1h.")
    if changes:
        return _say_one(
            options, asyncio.run(_of_node(options, lambda controller, node: controller.set_rules(node, changes)))
        )
    if options.node:
        return _say_one(options, asyncio.run(_of_node(options, _read_rules)))
    brakes = asyncio.run(_all(options))
    if options.json:
        say_json(autostop_view(brakes, as_of=time.time()))
    elif brakes:
        say_table(_HEADER, map(_row, brakes))
    else:
        note("There are no nodes.")
    return 0


def run_extend(options: argparse.Namespace) -> int:
    """Keep a node running past its auto-stop, or cancel an extension."""
    keep = _extension(options, time.time())
    return _say_one(options, asyncio.run(_of_node(options, lambda controller, node: controller.extend(node, keep))))


async def _read_rules(controller: AutostopController, node: Node) -> AutostopStatus:
    (brake,) = await controller.evaluate((node,))
    return brake


async def _of_node(
    options: argparse.Namespace, request: Callable[[AutostopController, Node], Awaitable[AutostopStatus]]
) -> AutostopStatus:
    from jupyter_tpu.cli.nodes.find import find_node
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(cloud_settings(options)) as cloud:
        node = await find_node(cloud, options.node, options.zone)
        with closing(_journal()) as journal:
            return await request(_controller(cloud, journal, (node,)), node)


async def _all(options: argparse.Namespace) -> list[AutostopStatus]:
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(cloud_settings(options)) as cloud:
        listed = await cloud.list_nodes(options.zone or "-")
        for zone in listed.unreachable:
            warn(f"The zone {zone} did not answer: its nodes are not listed.")
        with closing(_journal()) as journal:
            return await _controller(cloud, journal, listed.nodes).evaluate(listed.nodes)


def _controller(cloud: Any, journal: Any, nodes: tuple[Node, ...]) -> AutostopController:
    """Return a controller with links to the workers: only they know their activity; guards get new rules at once."""
    from jupyter_tpu.fleet.autostop.controller import AutostopController
    from jupyter_tpu.journal import data_dir
    from jupyter_tpu.kernels.agents.open_links import WorkerAgents
    from jupyter_tpu.ssh.keys import UserKey

    key = UserKey.load_or_create(data_dir() / "ssh").public_line
    return AutostopController(cloud, journal, WorkerAgents(cloud.settings, nodes), answer_s=_ANSWER_S, login_key=key)


def _journal() -> Any:
    from jupyter_tpu.journal import Journal

    journal = Journal.of_user()
    for notice in journal.notices:
        warn(notice)
    return journal


# -- the options


def _changes(options: argparse.Namespace) -> dict[str, Any]:
    given = {
        "idle_after_s": options.idle,
        "unattended_after_s": options.unattended,
        "session_s": options.session,
    }
    # None turns a rule off; an option that is not given changes nothing
    changes: dict[str, Any] = {name: None if each == OFF else each for name, each in given.items() if each}
    return {**changes, "action": options.action} if options.action else changes


def _extension(options: argparse.Namespace, now: float) -> KeepRunning:
    asked = extension(options, now)
    until = now + asked["for_s"] if "for_s" in asked else asked.get("until")
    return KeepRunning(until=until, while_busy=asked.get("while_busy", False))


# -- the output


def _say_one(options: argparse.Namespace, brake: AutostopStatus) -> int:
    if options.json:
        say_json(autostop_status_view(brake))
        return 0
    say(plain(f"{brake.node.name.node_id} is {brake.verdict.verdict}: {brake.verdict.reason}."))
    say(plain(f"  ends: {_ends_text(brake)}"))
    say(f"  rule: {_rule_text(brake)}")
    # an extension that is over stays in the settings until the next one
    if brake.keep.until is not None and brake.keep.until > time.time() and not _ends_with_extension(brake):
        say(f"  extended: for {duration_text(brake.keep.until - time.time())}")
    if brake.keep.while_busy:
        say("  extended: until what runs now has finished")
    if brake.reminder is not None:
        say(plain(f"  note: {brake.reminder.text(brake.node.name.node_id)}"))
    say(plain(f"  guard on the node: {brake.guard['state']} ({brake.guard['detail']})"))
    return 0


def _ends_with_extension(brake: AutostopStatus) -> bool:
    """Whether the node ends when the extension does: then one time is shown, not two."""
    return brake.keep.until is not None and brake.verdict.ends_at == brake.keep.until


def _rule_text(brake: AutostopStatus) -> str:
    """Describe the rules, as ``stop after 1 h idle or 2 h unattended or a session of 8 h``."""
    rules = brake.rules
    idle = [] if rules.idle_after_s is None else [f"{duration_text(rules.idle_after_s)} idle"]
    session = [] if rules.session_s is None else [f"a session of {duration_text(rules.session_s)}"]
    unattended_s = rules.unattended_after_s
    # without an idle timeout the unattended limit has no effect
    is_lapsing = rules.idle_after_s is not None and unattended_s is not None
    unattended = [f"{duration_text(unattended_s)} unattended"] if is_lapsing and unattended_s else []
    parts = [*idle, *unattended, *session]
    return f"{rules.action} after {' or '.join(parts)}" if parts else "none"


def _row(brake: AutostopStatus) -> tuple[str, ...]:
    name, rules = brake.node.name, brake.rules
    lengths = _length(rules.idle_after_s), _length(rules.session_s)
    return (
        name.node_id,
        name.zone,
        brake.verdict.verdict,
        *lengths,
        rules.action,
        _ends_text(brake),
        brake.guard["state"],
    )


def _length(length_s: float | None) -> str:
    return "off" if length_s is None else duration_text(length_s)


def _ends_text(brake: AutostopStatus) -> str:
    verdict = brake.verdict
    if verdict.ends_at is None:
        idle_s = brake.rules.idle_after_s
        is_off = verdict.verdict == "idle" or idle_s is None
        return "no auto-stop" if is_off or idle_s is None else f"{duration_text(idle_s)} after it becomes idle"
    left_s = verdict.ends_at - time.time()
    why = f"{verdict.ends_why}, extended" if _ends_with_extension(brake) else verdict.ends_why
    return f"now ({why})" if left_s <= 0 else f"in {duration_text(left_s)} ({why})"
