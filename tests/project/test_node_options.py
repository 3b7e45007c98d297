"""An option of a new node is in every place where a node is requested, and in the request to the cloud."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from google.cloud import tpu_v2

from jupyter_tpu.cli.options import node_options
from jupyter_tpu.cli.overview import Overview
from jupyter_tpu.cloud.protos import node_of, node_to_create
from jupyter_tpu.models import NODE_OPTIONS, NodeName, NodeOptions, NodeSpec
from jupyter_tpu.server.routes.bodies import node_spec_from_body
from jupyter_tpu.server.routes.capacity import search_from_body

ROOT = Path(__file__).parents[2]
CHOICE = {"zone": "us-central1-a", "accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite"}
NAME = NodeName(project="my-project", zone="us-central1-a", node_id="my-node")
SPEC = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")

each_option = pytest.mark.parametrize("name", NODE_OPTIONS)


@each_option
@pytest.mark.parametrize("command", ["create my-node --type v5litepod-8", "search my-node", "queue add my-node"])
def test_the_commands_have_it(command: str, name: str) -> None:
    parsed = Overview().parse_args([*command.split(), f"--{name.replace('_', '-')}"])
    assert node_options(parsed) == NodeOptions(**{name: True})


@each_option
def test_the_requests_of_the_rest_api_have_it(name: str) -> None:
    options = NodeOptions(**{name: True})
    node = {**CHOICE, "node_id": "my-node", name: True}
    search = {"node_id": "my-node", "candidates": [{**CHOICE, name: True}]}
    assert node_spec_from_body(json.dumps(node).encode(), "my-project").options == options
    assert search_from_body(json.dumps(search).encode()).candidates[0].options == options
    schemas = yaml.safe_load((ROOT / "jupyter_tpu/server/rest-api.yml").read_text())["components"]["schemas"]
    for schema in ("NewNode", "NewCandidate", "NewQueued"):
        assert schemas[schema]["properties"][name]["type"] == "boolean"


@each_option
def test_the_panel_has_it(name: str) -> None:
    source = ROOT / "labextension" / "src"
    assert f"spec.{name}" in (source / "create" / "more.tsx").read_text()
    assert f"{name}: {{ type: 'boolean'" in (source / "commands.ts").read_text()


@each_option
def test_the_cloud_gets_it_and_shows_it_of_the_node(name: str) -> None:
    options = NodeOptions(**{name: True})
    assert _as_created(SPEC).options == NodeOptions()
    assert _as_created(replace(SPEC, options=options)).options == options


def _as_created(spec):
    """Return the node of a request as the cloud shows it, with an external address if it was asked for."""
    message = node_to_create(spec)
    external_ip = "192.0.2.1" if message.network_config.enable_external_ips else ""
    message.name = str(spec.name)
    message.network_endpoints = [
        tpu_v2.NetworkEndpoint(ip_address="10.0.0.2", access_config=tpu_v2.AccessConfig(external_ip=external_ip))
    ]
    return node_of(tpu_v2.Node.pb(message))
