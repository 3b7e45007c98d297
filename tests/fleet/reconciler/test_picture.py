"""The nodes as last seen, whatever the order in which lists and looks arrive."""

from __future__ import annotations

from jupyter_tpu.autostop import Moment
from jupyter_tpu.errors import CloudUnavailable
from jupyter_tpu.fleet.reconciler.node_cache import NodeCache
from jupyter_tpu.models import Node, NodeList, NodeName

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")


def node(state: str) -> Node:
    return Node(name=NAME, state=state)


def moment(at: float) -> Moment:
    return Moment(wall=at, steady=at)


def test_a_list_that_was_asked_for_before_a_look_does_not_undo_it() -> None:
    picture = NodeCache()
    picture.merge_node(node("READY"), at=moment(2.0))
    assert picture.merge_list(NodeList(nodes=(node("CREATING"),)), asked=moment(1.0)) == set()
    assert picture.nodes == (node("READY"),)
    assert picture.merge_list(NodeList(nodes=(node("STOPPING"),)), asked=moment(3.0)) == {NAME}


def test_a_node_that_was_found_missing_is_not_brought_back_by_an_older_list() -> None:
    picture = NodeCache()
    picture.merge_node(node("DELETING"), at=moment(1.0))
    assert picture.merge_missing(NAME, at=moment(2.0)) == {NAME}
    assert picture.merge_list(NodeList(nodes=(node("DELETING"),)), asked=moment(1.5)) == set()
    assert picture.nodes == ()


def test_the_nodes_of_a_zone_that_did_not_answer_are_kept() -> None:
    picture = NodeCache()
    picture.merge_list(NodeList(nodes=(node("READY"),)), asked=moment(1.0))
    assert picture.merge_list(NodeList(nodes=(), unreachable=("us-central1-a",)), asked=moment(2.0)) == set()
    assert picture.nodes == (node("READY"),)
    assert picture.merge_list(NodeList(nodes=()), asked=moment(3.0)) == {NAME}


def test_a_failed_poll_is_news_once() -> None:
    picture = NodeCache()
    picture.merge_list(NodeList(nodes=(node("READY"),)), asked=moment(1.0))
    assert picture.record_failure(CloudUnavailable("silent"))
    assert not picture.record_failure(CloudUnavailable("silent"))
    assert (picture.nodes, picture.as_of) == ((node("READY"),), 1.0)
    picture.merge_list(NodeList(nodes=()), asked=moment(2.0))
    assert picture.error is None


def test_a_list_counts_though_the_wall_clock_was_set_back_since_the_last_look() -> None:
    picture = NodeCache()
    picture.merge_node(node("READY"), at=Moment(wall=5000.0, steady=1.0))
    assert picture.merge_list(NodeList(nodes=(node("STOPPED"),)), asked=Moment(wall=1400.0, steady=2.0)) == {NAME}
