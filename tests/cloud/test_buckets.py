"""Where buckets lie, asked of a Cloud Storage that the test wrote down."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from jupyter_tpu.cloud.emulator_address import ADDRESS_VARIABLE
from jupyter_tpu.cloud.services.buckets import egress_of, read_egress
from jupyter_tpu.cloud.services.rest import RestClient, Service
from jupyter_tpu.cloud.settings import CloudSettings

SETTINGS = CloudSettings(project="my-project", endpoint="127.0.0.1:1")
STORAGE = Service(title="Cloud Storage API", host="storage.googleapis.com", role="roles/storage.legacyBucketReader")
ANSWERS: dict[str, tuple[int, Any]] = {
    "near": (200, {"location": "US-CENTRAL1"}),
    "far": (200, {"location": "EUROPE-WEST4"}),
    "wide": (200, {"location": "US"}),
    "mute": (200, {}),
    "odd": (200, {"location": ["<b>"]}),
    "closed": (403, {"error": {"message": "me does not have storage.buckets.get access"}}),
    "gone": (404, {"error": {"message": "The specified bucket does not exist."}}),
    "ill": (503, "<html>"),
}


class Storage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        assert parts.query == "fields=location"
        status, body = ANSWERS[parts.path.removeprefix("/storage/v1/b/")]
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def door() -> Iterator[RestClient]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Storage)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    with closing(RestClient.open(SETTINGS, STORAGE, {ADDRESS_VARIABLE: address})) as door:
        yield door
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("bucket", "verdict", "text"),
    [
        ("near", "same", "is also in us-central1"),
        ("far", "elsewhere", "is in europe-west4, and the node is in us-central1"),
        ("wide", "spread", "is stored in several regions (US)"),
        ("mute", "unknown", "The location of gs://mute is unknown."),
        ("odd", "unknown", "The location of gs://odd is unknown."),
        (
            "closed",
            "unknown",
            "is unknown: You don't have permission to read from the Cloud Storage API in project my-project.",
        ),
        ("gone", "unknown", "is unknown: The Cloud Storage API refused the request (404)."),
        ("ill", "unknown", "is unknown: The Cloud Storage API had an internal error."),
    ],
)
def test_a_bucket_lies_where_cloud_storage_says(door: RestClient, bucket: str, verdict: str, text: str) -> None:
    found = egress_of(door, bucket, "us-central1-a")
    assert found.verdict == verdict
    assert text in found.text


async def test_in_an_emulated_cloud_it_is_not_known() -> None:
    (found,) = await read_egress(SETTINGS, ["near"], "us-central1-a")
    assert found.verdict == "unknown"
    assert "the emulated cloud has no Cloud Storage" in found.text
    assert await read_egress(CloudSettings(project="my-project"), [], "us-central1-a") == ()
