"""The commands `autostop` and `extend`: set the auto-stop rules of nodes, and keep a node running."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from jupyter_tpu.autostop import KeepRunning
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import echo, echo_json, echo_table, note, plain, shown, warn
from jupyter_tpu.commands.extension import extension
from jupyter_tpu.commands.grammar import OFF
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.fleet.autostop.views import autostop_status_view, autostop_view
from jupyter_tpu.i18n import _

if TYPE_CHECKING:
    from jupyter_tpu.fleet.autostop.controller import AutostopController, AutostopStatus
    from jupyter_tpu.models import Node


_WORDS = {
    "idle": Text("idle"),
    "busy": Text("busy"),
    "unknown": Text("unknown"),
    "session": Text("maximum session length"),
    "deadline": Text("deadline"),
    "stop": Text("stop"),
    "delete": Text("delete"),
    "armed": Text("on"),
    "off": Text("off"),
    "cannot": Text("can't stop the node"),
}
"""Display names of the rules, their actions and the guard's states."""

_HEADER = ("NODE", "ZONE", "ACTIVITY", "IDLE TIMEOUT", "MAX SESSION", "ACTION", "AUTO-STOP", "GUARD")
# time limit for a worker that never responds; a first connection over a slow network takes a few seconds
_ANSWER_S = 60.0


def run_autostop(options: argparse.Namespace) -> int:
    """Show the auto-stop rules of one or all nodes, or change one node's rules."""
    changes = _changes(options)
    if changes and not options.node:
        raise BadInput("No node was given.", hint="Run `jupyter tpu autostop NODE --idle 1h`.")
    if changes:
        return _show_one(
            options, asyncio.run(_of_node(options, lambda controller, node: controller.set_rules(node, changes)))
        )
    if options.node:
        return _show_one(options, asyncio.run(_of_node(options, _read_rules)))
    brakes = asyncio.run(_all(options))
    if options.json:
        echo_json(autostop_view(brakes, as_of=time.time()))
    elif brakes:
        echo_table(_HEADER, map(_row, brakes))
    else:
        note(_("There are no nodes."))
    return 0


def run_extend(options: argparse.Namespace) -> int:
    """Keep a node running past its auto-stop, or cancel an extension."""
    keep = _extension(options, time.time())
    return _show_one(options, asyncio.run(_of_node(options, lambda controller, node: controller.extend(node, keep))))


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
            warn(_("{zone} did not respond: its nodes are not listed.", zone=zone))
        with closing(_journal()) as journal:
            return await _controller(cloud, journal, listed.nodes).evaluate(listed.nodes)


def _controller(cloud: Any, journal: Any, nodes: tuple[Node, ...]) -> AutostopController:
    """Return a controller with links to the workers, to read activity and send new rules to the guards."""
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
        warn(_(notice))
    return journal


# -- the options


def _changes(options: argparse.Namespace) -> dict[str, Any]:
    given = {
        "idle_after_s": options.idle,
        "unattended_after_s": options.unattended,
        "session_s": options.session,
    }
    # None turns a rule off; an omitted option changes nothing
    changes: dict[str, Any] = {name: None if each == OFF else each for name, each in given.items() if each}
    return {**changes, "action": options.action} if options.action else changes


def _extension(options: argparse.Namespace, now: float) -> KeepRunning:
    asked = extension(options, now)
    until = now + asked["for_s"] if "for_s" in asked else asked.get("until")
    return KeepRunning(until=until, while_busy=asked.get("while_busy", False))


# -- the output


def _show_one(options: argparse.Namespace, brake: AutostopStatus) -> int:
    if options.json:
        echo_json(autostop_status_view(brake))
        return 0
    verdict, why = brake.verdict.verdict, brake.verdict.ends_why
    # before an idle stop, unknown activity no longer counts as use
    is_use = verdict == "unknown" and why != "idle"
    echo(
        plain(
            _(
                "{node} is {verdict}: {reason}.",
                node=brake.node.name.node_id,
                verdict=_("unknown (treated as busy)") if is_use else _(_WORDS[verdict]),
                reason=_(brake.verdict.reason),
            )
        )
    )
    echo(plain(_("  auto-stop: {ends}", ends=_ends_text(brake))))
    echo(_("  rule: {rule}", rule=_rule_text(brake)))
    # an expired extension stays in the settings until the next extension
    if brake.keep.until is not None and brake.keep.until > time.time() and not _ends_with_extension(brake):
        echo(_("  extended: {duration} left", duration=duration_text(brake.keep.until - time.time())))
    if brake.keep.while_busy:
        echo(_("  extended: until the running cells have finished"))
    if brake.reminder is not None:
        echo(plain(_("  note: {reminder}", reminder=brake.reminder.text(brake.node.name.node_id))))
    echo(
        plain(
            _("  guard on the node: {state} ({detail})", state=_guard_text(brake), detail=shown(brake.guard["detail"]))
        )
    )
    return 0


def _ends_with_extension(brake: AutostopStatus) -> bool:
    """Whether the node stops exactly when the extension ends; then only one time is shown."""
    return brake.keep.until is not None and brake.verdict.ends_at == brake.keep.until


def _rule_text(brake: AutostopStatus) -> str:
    """Describe the rules, such as ``stop after 1 h idle or 2 h unattended or a session of 8 h``."""
    rules = brake.rules
    idle = [] if rules.idle_after_s is None else [_("{duration} idle", duration=duration_text(rules.idle_after_s))]
    session = (
        [] if rules.session_s is None else [_("{duration} of session time", duration=duration_text(rules.session_s))]
    )
    unattended_s = rules.unattended_after_s
    # without an idle timeout the unattended limit has no effect
    is_lapsing = rules.idle_after_s is not None and unattended_s is not None
    unattended = [_("{duration} unattended", duration=duration_text(unattended_s or 0))] if is_lapsing else []
    parts = _(" or ").join([*idle, *unattended, *session])
    if not parts:
        return _("none")
    return (
        _("stop after {limits}", limits=parts) if rules.action == "stop" else _("delete after {limits}", limits=parts)
    )


def _row(brake: AutostopStatus) -> tuple[str, ...]:
    name, rules = brake.node.name, brake.rules
    lengths = _length(rules.idle_after_s), _length(rules.session_s)
    return (
        name.node_id,
        name.zone,
        _(_WORDS[brake.verdict.verdict]),
        *lengths,
        _(_WORDS[rules.action]),
        _ends_text(brake),
        _guard_text(brake),
    )


def _guard_text(brake: AutostopStatus) -> str:
    state = brake.guard["state"]
    return _(_WORDS[state]) if state in _WORDS else state


def _length(length_s: float | None) -> str:
    return _("off") if length_s is None else duration_text(length_s)


def _ends_text(brake: AutostopStatus) -> str:
    verdict = brake.verdict
    if verdict.ends_at is None:
        idle_s = brake.rules.idle_after_s
        is_off = verdict.verdict == "idle" or idle_s is None
        if is_off or idle_s is None:
            return _("none")
        return _("{duration} after it becomes idle", duration=duration_text(idle_s))
    left_s, why = verdict.ends_at - time.time(), _(_WORDS[verdict.ends_why or "idle"])
    if _ends_with_extension(brake):
        why = _("{why}, extended", why=why)
    if left_s <= 0:
        return _("now ({why})", why=why)
    return _("in {duration} ({why})", duration=duration_text(left_s), why=why)
