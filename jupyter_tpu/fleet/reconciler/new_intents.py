"""Create intents. A new node's spec gets the label that identifies the node, and the user's SSH key."""

from __future__ import annotations

import secrets
from dataclasses import replace

from jupyter_tpu.error_actions import delete_node
from jupyter_tpu.errors import NodeExists, Text
from jupyter_tpu.lifecycle import intent_texts
from jupyter_tpu.lifecycle.intents import Intent, Verb
from jupyter_tpu.models import INTENT_LABEL, Node, NodeName, NodeSpec
from jupyter_tpu.node_end import EndCause


def new_intent(verb: Verb, name: NodeName, *, endpoint: str, now: float, because: EndCause | None = None) -> Intent:
    """Return a new intent without an owner for the cloud at `endpoint`; `now` is in Unix seconds."""
    return Intent(
        intent_id=secrets.token_hex(8),  # 16 characters; a label value may have 63
        verb=verb,
        node_name=name,
        endpoint=endpoint,
        message=Text("Saved in the journal."),
        created_at=now,
        updated_at=now,
        phase_since=now,
        because=because,
    )


def new_create_intent(spec: NodeSpec, *, ssh_key: str, endpoint: str, now: float) -> Intent:
    """Return a new intent to create a node, with jupyter_tpu's label to find it and the user's key to log in."""
    wanted = new_intent("create", spec.name, endpoint=endpoint, now=now)
    lines = [*spec.metadata.get("ssh-keys", "").splitlines(), ssh_key]
    keys = "\n".join(dict.fromkeys(filter(None, lines)))  # a recreated node's keys already include ours
    equipped = replace(
        spec,
        labels={**spec.labels, INTENT_LABEL: wanted.intent_id},
        metadata={**spec.metadata, "ssh-keys": keys},
    )
    return replace(wanted, spec=equipped)


def name_taken(node: Node) -> NodeExists:
    """Return the error for a node name that another node uses."""
    return NodeExists(
        Text("{zone} already has a node named {node}.", node=node.name.node_id, zone=node.name.zone),
        exists=intent_texts.node_exists(node),
        hint=Text(
            "Choose another name, or delete that node with {command}.",
            command=intent_texts.command("delete", node.name),
        ),
        actions=(delete_node(node.name),),
    )
