"""An intent of each verb, and events to happen to it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.models import INTENT_LABEL, Node, NodeName, NodeSpec, Operation

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
SPEC = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")


def intent(verb: Any = "create", **changes: Any) -> Intent:
    return Intent(intent_id="abc", verb=verb, node_name=NAME, spec=SPEC if verb == "create" else None, **changes)


def node(state: str, label: str = "abc") -> Node:
    labels = {INTENT_LABEL: label} if label else {}
    return Node(name=NAME, state=state, accelerator_type="v5litepod-8", labels=labels)


def operation(done: bool = False, error: Any = None) -> Operation:
    return Operation(name="operations/1", verb="create", target=str(NAME), done=done, error=error)


@pytest.fixture
def make() -> SimpleNamespace:
    return SimpleNamespace(intent=intent, node=node, operation=operation, name=NAME, spec=SPEC)
