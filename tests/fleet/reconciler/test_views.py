"""What nodes, lists and offers look like as JSON."""

from __future__ import annotations

import json

from jupyter_tpu.errors import CredentialsMissing
from jupyter_tpu.fleet import FleetSnapshot, Intent
from jupyter_tpu.fleet.reconciler import views
from jupyter_tpu.models import INTENT_LABEL, Node, NodeName, NodeSpec

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")


def test_a_ready_node_is_shown_with_its_price_and_its_hardware() -> None:
    node = Node(name=NAME, state="READY", accelerator_type="v5litepod-8", labels={INTENT_LABEL: "i-1"})

    view = views.node_view(node, kernelspec="tpu-my-node-us-central1-a")

    assert view["billing"] is True
    assert view["managed"] is True
    assert view["price"]["usd_per_hour"] == 9.6
    assert view["accelerator"]["jax_devices"] == 8
    assert view["kernelspec"] == "tpu-my-node-us-central1-a"


def test_a_type_that_nobody_knows_has_no_price_and_no_hardware() -> None:
    view = views.node_view(Node(name=NAME, state="UNKNOWN(17)", accelerator_type="v99-8"))

    assert view["price"] is None
    assert view["accelerator"] is None
    assert view["billing"] is True  # nobody knows that it is not
    assert view["managed"] is False


def test_hostile_text_of_the_cloud_stays_text() -> None:
    hostile = "<script>alert(1)</script>\x1b]52;c;eA==\x07\n\u202e"
    node = Node(name=NAME, state="READY", health_description=hostile, description=hostile)

    assert json.loads(json.dumps(views.node_view(node)))["health_description"] == hostile


def test_a_list_that_was_never_read_has_no_date() -> None:
    assert views.nodes_view(FleetSnapshot(), {})["as_of"] is None


def test_a_list_without_a_cloud_says_why() -> None:
    view = views.no_nodes_view(CredentialsMissing("Nobody is signed in.", hint="Sign in."))

    assert view["nodes"] == []
    assert view["error"]["code"] == "credentials_missing"


def test_an_intent_is_shown_without_what_is_ours_only() -> None:
    view = views.intent_view(Intent(intent_id="i-1", verb="delete", node_name=NAME, owner="17:3"))

    assert view["node_id"] == "my-node"
    assert "owner" not in view


def test_offers_name_zones_types_prices_and_runtime_versions() -> None:
    offers = views.offers_view()

    offered = {offer["accelerator_type"]: offer for offer in offers["zones"]["us-central1-a"]}
    assert offered["v5litepod-8"]["usd_per_hour"] == 9.6
    assert offered["v5litepod-8"]["runtime_versions"]


def test_offers_have_a_price_by_flex_start_where_a_list_has_one() -> None:
    offers = views.offers_view()

    assert {each["usd_per_hour_flex_start"] for each in offers["zones"]["us-central1-a"]} == {None}
    v6e = {offer["accelerator_type"]: offer["usd_per_hour_flex_start"] for offer in offers["zones"]["us-east5-b"]}
    assert v6e["v6e-8"] == 10.8


def test_the_default_offer_is_one_of_the_offers() -> None:
    offers = views.offers_view()
    default = offers["default"]

    offered = {offer["accelerator_type"]: offer for offer in offers["zones"][default["zone"]]}
    assert default["runtime_version"] in offered[default["accelerator_type"]]["runtime_versions"]


def test_only_a_creation_of_a_known_type_and_zone_has_a_usual_time() -> None:
    spec = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="tpu-ubuntu2204-base")
    creation = Intent(intent_id="i-1", verb="create", node_name=NAME, spec=spec)
    deletion = Intent(intent_id="i-2", verb="delete", node_name=NAME)
    snapshot = FleetSnapshot(intents=(creation, deletion))

    known = views.nodes_view(snapshot, {}, creation_seconds={("v5litepod-8", NAME.zone): 90.0})
    unknown = views.nodes_view(snapshot, {}, creation_seconds={("v5litepod-8", "us-west4-a"): 90.0})

    assert [intent["usual_s"] for intent in known["intents"]] == [90.0, None]
    assert [intent["usual_s"] for intent in unknown["intents"]] == [None, None]
