"""The server starts and says what is wrong when there is no cloud to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import StartServer

NEW_NODE = {
    "node_id": "my-node",
    "zone": "us-central1-a",
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
}


def test_without_credentials_every_route_says_how_to_sign_in(start_server: StartServer) -> None:
    server = start_server(JUPYTER_TPU_ENDPOINT="", JUPYTER_TPU_PROJECT="some-project")

    assert server.tpu("GET", "status").json["error"]["code"] == "credentials_missing"
    listed = server.tpu("GET", "nodes")
    assert (listed.status, listed.json["error"]["code"]) == (200, "credentials_missing")
    refused = server.tpu("POST", "nodes", NEW_NODE)
    assert (refused.status, refused.json["reason"]) == (401, "credentials_missing")
    assert "gcloud auth application-default login" in refused.json["message"]
    assert server.tpu("GET", "offers").status == 200
    assert "Traceback" not in server.log()


def test_a_mistyped_endpoint_is_named(start_server: StartServer) -> None:
    server = start_server(JUPYTER_TPU_ENDPOINT="http://cloud/", JUPYTER_TPU_PROJECT="some-project")

    error = server.tpu("GET", "nodes").json["error"]

    assert error["code"] == "bad_input"
    assert "HOST:PORT" in error["hint"]


@pytest.mark.nightly
def test_a_cloud_that_does_not_answer_is_an_error_of_the_list(start_server: StartServer) -> None:
    server = start_server(JUPYTER_TPU_ENDPOINT="127.0.0.1:9", JUPYTER_TPU_PROJECT="some-project")

    assert server.tpu("GET", "status").json["emulated"] is True
    assert server.tpu("POST", "nodes", NEW_NODE).json["reason"] == "cloud_unavailable"
    assert "Traceback" not in server.log()
