"""What Google has billed, over REST."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING

import pytest
from rest_api import assert_fits

if TYPE_CHECKING:
    from conftest import Cloud, Server, StartServer

TABLE = "demo-project.billing.gcp_billing_export_v1_01E5D0_7B0000_00DE30"


def live_an_hour(cloud: Cloud) -> None:
    request = urllib.request.Request(
        f"{cloud.rest}/v2/projects/{cloud.project}/locations/us-central1-a/nodes?nodeId=my-node",
        data=json.dumps({"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite"}).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120):
        pass
    cloud.control.advance(3600)


@pytest.mark.usefixtures("cloud")
def test_without_a_configured_export_it_is_said_how_to_configure_one(server: Server) -> None:
    answer = server.tpu("GET", "billed")

    assert (answer.status, answer.json["error"]["code"]) == (400, "bad_input")
    assert "TPUApp.billing_export" in answer.json["error"]["hint"]


@pytest.mark.nightly
def test_an_empty_export_is_an_error_and_a_bill_is_kept_for_an_hour(
    cloud: Cloud, start_lasting_server: StartServer
) -> None:
    there = {"JUPYTER_TPU_EMULATOR": cloud.rest, "JUPYTER_TPU_BILLING_EXPORT": TABLE}
    server = start_lasting_server(**cloud.variables, **there)
    empty = server.tpu("GET", "billed")
    assert (empty.status, empty.json["error"]["code"]) == (400, "cloud_refused")
    assert "has no costs for project" in empty.json["error"]["message"]

    live_an_hour(cloud)
    billed = server.tpu("GET", "billed").json
    assert_fits(billed, "Billed")
    assert billed["last_30_days"]["cost"] > 0
    assert {row["sku"] for row in billed["days"]} == {"TpuV5e running in Americas"}
    cloud.control.advance(3600)
    assert server.tpu("GET", "billed").json == billed
    cloud.control.reset()
