"""On which terms a node is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_tpu.errors import BadInput
from jupyter_tpu.lifecycle.search_state import Candidate
from jupyter_tpu.models import Node, NodeName, NodeSpec
from jupyter_tpu.provisioning import FLEX_START_LABELS, PROVISIONING_MODELS, Provisioning, flags_of, parse_provisioning

NAME = NodeName(project="my-project", zone="us-central1-a", node_id="my-node")


def spec(**changes: Any) -> NodeSpec:
    return NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="r", **changes)


@pytest.mark.parametrize("provisioning", PROVISIONING_MODELS)
def test_flags_and_label_tell_the_model(provisioning: Provisioning) -> None:
    labels = FLEX_START_LABELS if provisioning == "flex-start" else {}
    wanted = spec(labels=labels, **flags_of(provisioning))
    assert wanted.provisioning == provisioning
    assert NodeSpec.from_json(wanted.to_json()).provisioning == provisioning
    assert Node(name=NAME, state="READY", labels=labels, **flags_of(provisioning)).provisioning == provisioning


@pytest.mark.parametrize("flags", [{"spot": True, "preemptible": True}, {"preemptible": True, "reserved": True}])
def test_a_node_has_one_model(flags: dict[str, bool]) -> None:
    with pytest.raises(BadInput, match=" and ".join(flags)):
        spec(**flags)
    with pytest.raises(BadInput, match="at the same time"):
        Candidate(zone="us-central1-a", accelerator_type="v5litepod-8", runtime_version="r", **flags)


def test_what_was_written_down_when_only_spot_was_known_is_read() -> None:
    old = {key: value for key, value in spec(spot=True).to_json().items() if key not in ("preemptible", "reserved")}
    assert NodeSpec.from_json(old) == spec(spot=True)


@pytest.mark.parametrize(
    ("name", "spot", "provisioning"),
    [
        (None, None, "on-demand"),
        (None, False, "on-demand"),
        (None, True, "spot"),
        ("spot", True, "spot"),
        ("preemptible", None, "preemptible"),
        ("reserved", False, "reserved"),
        ("flex-start", None, "flex-start"),
    ],
)
def test_a_user_names_it_or_says_spot(name: str | None, spot: bool | None, provisioning: str) -> None:
    assert parse_provisioning(name, spot=spot) == provisioning


@pytest.mark.parametrize(
    ("name", "spot", "said"),
    [
        ("reserved", True, "reserved and spot=true contradict"),
        ("on-demand", True, "on-demand and spot=true contradict"),
        ("spot", False, "spot and spot=false contradict"),
        ("cheap", None, "not a provisioning model"),
        ("", None, "not a provisioning model"),
    ],
)
def test_a_contradiction_is_refused(name: str, spot: bool | None, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        parse_provisioning(name, spot=spot)
