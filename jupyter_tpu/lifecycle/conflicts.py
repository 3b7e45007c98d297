"""Check whether a new intent repeats, overrules or conflicts with open intents for the same node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jupyter_tpu.errors import NodeExists, Text, WrongState
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.lifecycle.to_ready import BOOTING, ROLLING_BACK

DOING = {"create": "created", "delete": "deleted", "stop": "stopped", "start": "started"}


def settle_conflict(open_intents: Iterable[Intent], wanted: Intent) -> Intent:
    """Return the intent to perform: an equivalent open intent if there is one, otherwise `wanted`.

    A double-click, two tabs or a retry must not create two nodes. Only one intent at a time changes a node, unless one
    overrules the other; see `overrules`.

    Raises:
        NodeExists: the node is being created with other properties, or the name is not free yet.
        WrongState: another intent is changing the node.
    """
    siblings = [each for each in open_intents if _same_node(each, wanted) and not each.settled]
    # check for a repetition first: it is never a conflict
    for sibling in siblings:
        if _means_the_same(sibling, wanted):
            return sibling
    in_the_way = [each for each in siblings if not overrules(wanted, each)]
    if in_the_way:
        raise _busy(in_the_way[-1], wanted)
    return wanted


def overrules(newer: Intent, older: Intent) -> bool:
    """Return whether a newer intent cancels an older intent for the same node.

    A deletion cancels every other intent. A stop cancels a creation or start if the node is READY (and therefore
    billed) but still booting, because auto-stop and budgets must not wait for the boot.
    """
    if newer.verb == "delete":
        return older.verb != "delete"
    return newer.verb == "stop" and older.phase == BOOTING


def intents_to_show(intents: Iterable[Intent]) -> Iterator[Intent]:
    """Yield all open intents, and the newest intent of each node if that intent failed.

    A failure is outdated once a later intent exists.
    """
    ordered = sorted(intents, key=lambda each: (each.created_at, each.intent_id))
    newest = {(each.endpoint, each.node_name): each for each in ordered}
    for each in ordered:
        if not each.settled or (each.error is not None and newest[each.endpoint, each.node_name] is each):
            yield each


def may_appear(open_intents: Iterable[Intent], wanted: Intent) -> bool:
    """Return whether `wanted` deletes a node that is being created and that the cloud may not list yet."""
    return wanted.verb == "delete" and any(
        _same_node(each, wanted) and each.verb == "create" and each.phase not in (ROLLING_BACK, BOOTING)
        for each in open_intents
    )


def _same_node(one: Intent, other: Intent) -> bool:
    """Return whether both intents have the same node name and cloud."""
    return (one.endpoint, one.node_name) == (other.endpoint, other.node_name)


def _means_the_same(sibling: Intent, wanted: Intent) -> bool:
    return sibling.verb == wanted.verb and _essentials(sibling) == _essentials(wanted)


def _essentials(intent: Intent) -> tuple[object, ...]:
    # labels and metadata differ in each request, because they contain the intent's ID
    spec = intent.spec
    return (spec.accelerator_type, spec.runtime_version, spec.provisioning, spec.options) if spec else ()


def _busy(sibling: Intent, wanted: Intent) -> NodeExists | WrongState:
    kind = NodeExists if wanted.verb == "create" else WrongState
    what = sibling.spec.accelerator_type if sibling.spec else "node"
    return kind(
        Text(
            "{node} in {zone} cannot be {wanted}: a {accelerator_type} with that name is being {present} ({phase}).",
            node=repr(wanted.node_name.node_id),
            zone=wanted.node_name.zone,
            wanted=DOING[wanted.verb],
            accelerator_type=what,
            present=DOING[sibling.verb],
            phase=sibling.phase,
        ),
        exists="No request was sent to the cloud.",
        hint="Wait until the deletion is finished."
        if sibling.verb == "delete"
        else "Wait until that request is finished, or delete the node first.",
    )
