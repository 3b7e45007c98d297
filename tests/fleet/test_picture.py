"""The nodes as last seen, whatever the order in which lists and looks arrive."""

from __future__ import annotations

from jupyter_tpu.errors import CloudUnavailable
from jupyter_tpu.fleet.picture import Picture
from jupyter_tpu.models import Node, NodeList, NodeName

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")


def node(state: str) -> Node:
    return Node(name=NAME, state=state)


def test_a_list_that_was_asked_for_before_a_look_does_not_undo_it() -> None:
    picture = Picture()
    picture.seen(node("READY"), at=2.0)
    assert picture.listed(NodeList(nodes=(node("CREATING"),)), asked_at=1.0) == set()
    assert picture.nodes == (node("READY"),)
    assert picture.listed(NodeList(nodes=(node("STOPPING"),)), asked_at=3.0) == {NAME}


def test_a_node_that_was_found_missing_is_not_brought_back_by_an_older_list() -> None:
    picture = Picture()
    picture.seen(node("DELETING"), at=1.0)
    assert picture.missing(NAME, at=2.0) == {NAME}
    assert picture.listed(NodeList(nodes=(node("DELETING"),)), asked_at=1.5) == set()
    assert picture.nodes == ()


def test_the_nodes_of_a_zone_that_did_not_answer_are_kept() -> None:
    picture = Picture()
    picture.listed(NodeList(nodes=(node("READY"),)), asked_at=1.0)
    assert picture.listed(NodeList(nodes=(), unreachable=("us-central1-a",)), asked_at=2.0) == set()
    assert picture.nodes == (node("READY"),)
    assert picture.listed(NodeList(nodes=()), asked_at=3.0) == {NAME}


def test_a_failed_poll_is_news_once() -> None:
    picture = Picture()
    picture.listed(NodeList(nodes=(node("READY"),)), asked_at=1.0)
    assert picture.failed(CloudUnavailable("silent"))
    assert not picture.failed(CloudUnavailable("silent"))
    assert (picture.nodes, picture.as_of) == ((node("READY"),), 1.0)
    picture.listed(NodeList(nodes=()), asked_at=2.0)
    assert picture.error is None
