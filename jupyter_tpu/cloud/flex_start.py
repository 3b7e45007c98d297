"""Flex-start: create a queued resource for a node that the cloud deletes after a maximum run duration.

Only the REST API v2alpha1 supports flex-start (discovery document, revision 20261001); Google's client doesn't.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from google.cloud import tpu_v2
from google.protobuf import json_format
from google.rpc import code_pb2

from jupyter_tpu.cloud import protos
from jupyter_tpu.cloud.refusal_records import Refusal, Request
from jupyter_tpu.cloud.refusals import error_of_refusal
from jupyter_tpu.cloud.services.rest import RestClient, Service
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import CloudUnavailable
from jupyter_tpu.models import Operation, QueuedSpec

_TPU = Service(title="Cloud TPU API", host="tpu.googleapis.com", role="TPU Admin")


def create_flex_start(
    settings: CloudSettings,
    about: Request,
    query: Mapping[str, str],
    body: Mapping[str, Any],
    environment: Mapping[str, str],
) -> Operation:
    """Create the queued resource (blocking), like `CloudApi.create_queued_resource`; error messages mention `about`."""
    client = RestClient.open(settings, _TPU, environment)
    try:
        path = f"/v2alpha1/projects/{about.project}/locations/{about.zone}/queuedResources"
        status, text = client.post(path, query, body)
    finally:
        client.close()
    if status != 200:
        raise error_of_refusal(about, _refusal(status, text))
    return Operation(name=str(_object(text).get("name", "")), verb="create", target=about.what)


def flex_start_body(spec: QueuedSpec, valid_for_s: float | None, run_for_s: float) -> dict[str, Any]:
    """Return the request's JSON, in the same form as gcloud's."""
    node = json_format.MessageToDict(tpu_v2.Node.pb(protos.node_to_create(spec.node)))
    policy = {} if valid_for_s is None else {"validUntilDuration": f"{valid_for_s:.0f}s"}
    return {
        "provisioningModel": "FLEX_START",
        "queueingPolicy": policy,
        "runDuration": {"maxRunDuration": f"{run_for_s:.0f}s"},
        "tpu": {"nodeSpec": [{"parent": spec.name.parent, "nodeId": spec.node.name.node_id, "node": node}]},
    }


def _refusal(status: int, text: str) -> Refusal:
    """Parse Google's error envelope; a response without an envelope is from another source, such as a proxy."""
    error = _object(text).get("error")
    # UNAVAILABLE means an unknown outcome: the request may have arrived.
    if not isinstance(error, dict):
        return Refusal(code=code_pb2.UNAVAILABLE if status >= 500 else code_pb2.UNKNOWN, message=text[:2000])
    details = [each for each in error.get("details", ()) if isinstance(each, dict)]
    return Refusal(
        code=_code(str(error.get("status"))),
        message=str(error.get("message", "")),
        reason=next((str(each["reason"]) for each in details if "reason" in each), ""),
        violations=tuple(
            str(violation.get("description", "")) for each in details for violation in each.get("violations", ())
        ),
    )


def _code(name: str) -> int:
    return int(code_pb2.Code.Value(name)) if name in code_pb2.Code.keys() else code_pb2.UNKNOWN  # noqa: SIM118


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CloudUnavailable("The response from the Cloud TPU API cannot be read.", raw=text[:2000]) from error
    return found if isinstance(found, dict) else {}
