"""A node knows its price, cost, quota and grants without a Jupyter server: commands send them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_tpu.agent.autostop.snapshots import KINDS

if TYPE_CHECKING:
    from conftest import Terminal

V5E = ("--type", "v5litepod-8", "--zone", "us-central1-a")


@pytest.fixture(autouse=True)
def empty(terminal: Terminal) -> Iterator[None]:
    """Each test begins and ends with an empty cloud."""
    yield
    terminal.cloud.reset()


def snapshots(terminal: Terminal) -> dict[str, Any]:
    """What the node's agent has on its disk."""
    found = list(terminal.home.rglob("snapshots.json"))
    return json.loads(found[0].read_text()) if found else {}


def test_a_new_node_is_sent_its_price_cost_quota_and_grants(terminal: Terminal) -> None:
    today = time.strftime("%Y-%m-%d", time.gmtime())
    terminal.tpu("grant", "add", "edu", "--credit", "100", "--starts-on", today, "--days", "30")
    created = terminal.tpu("create", "mine", *V5E)
    assert created.returncode == 0, created.stderr
    sent = snapshots(terminal)
    assert sent.keys() == set(KINDS)
    assert sent["node"]["data"]["price"]["usd_per_hour"] == 9.6
    assert [row["node_id"] for row in sent["cost"]["data"]["nodes"]] == ["mine"]
    assert [grant["name"] for grant in sent["grant"]["data"]["grants"]] == ["edu"]
    assert sent["quota"]["data"]["limits"]

    terminal.tpu("grant", "remove", "edu")
    assert terminal.tpu("list").returncode == 0
    assert snapshots(terminal)["grant"]["data"]["grants"] == []


def test_a_list_leaves_nodes_alone_that_were_never_used_from_here(terminal: Terminal, elsewhere_in: Any) -> None:
    elsewhere_in(terminal.rest, terminal.environment["JUPYTER_TPU_PROJECT"]).create("theirs")
    assert "theirs" in terminal.tpu("list").stdout
    assert snapshots(terminal) == {}
