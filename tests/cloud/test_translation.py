"""Real exceptions of Google's client, and failures inside operations, become our errors."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.api_core import exceptions as gx
from google.auth import exceptions as ax
from google.cloud import tpu_v2
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from jupyter_tpu.cloud.protos import node_of
from jupyter_tpu.cloud.refusal_records import Request
from jupyter_tpu.cloud.translation import error_of_exception, error_of_status

CREATE = Request(
    what="create node 'my-node' in us-central1-b",
    project="my-project",
    zone="us-central1-b",
    node_id="my-node",
    accelerator_type="v5litepod-8",
)
EID = " [EID: 0x8f3c0f6f5d2a1b3c]"
QUOTA_FAILURE = error_details_pb2.QuotaFailure(
    violations=[{"subject": "project:1", "description": "Quota 'TPUV5s' exhausted. Limit 4 in zone us-east5-a"}]
)


def info(reason: str) -> error_details_pb2.ErrorInfo:
    return error_details_pb2.ErrorInfo(reason=reason, domain="googleapis.com")


# the texts are those of public reports; the last two columns: our code, and words that the user must read
REFUSALS: list[tuple[Any, str, str]] = [
    (
        gx.ResourceExhausted(
            "Quota limit 'TPUV5sLitepodServingPerProjectPerZoneForTPUAPI' has been exceeded. "
            "Limit: 4 in zone us-east5-a.",
            details=[QUOTA_FAILURE],
        ),
        "quota_exceeded",
        "is used up. Limit: 4 in zone us-east5-a.",
    ),
    (gx.ResourceExhausted("No.", details=[QUOTA_FAILURE]), "quota_exceeded", "is used up. Limit 4 in zone us-east5-a"),
    (
        gx.ResourceExhausted("Maximum number of CreateNode requests per minute"),
        "rate_exceeded",
        "Wait a minute",
    ),
    (
        gx.ResourceExhausted("You have reached IN_USE_ADDRESSES limit." + EID),
        "address_quota_exceeded",
        "internal addresses",
    ),
    (
        gx.ResourceExhausted('There is no more capacity in the zone "us-central1-b"; you can try in another' + EID),
        "out_of_capacity",
        "Zones that offer v5litepod-8: us-central1-a",
    ),
    (
        gx.FailedPrecondition("Insufficient reserved capacity. Contact customer"),
        "out_of_capacity",
        "reservation",
    ),
    (
        gx.InvalidArgument(
            "Cloud TPU received a bad request. The requested accelerator configuration for accelerator type, "
            '"v5litepod-8", could not be found in the zonal accelerator configurations for "us-central1-b".' + EID
        ),
        "bad_input",
        "v5litepod-8 is not offered in us-central1-b",
    ),
    (
        gx.InvalidArgument("Cloud TPU received a bad request. update is not supported while in state PREEMPTED" + EID),
        "wrong_state",
        "the node is PREEMPTED",
    ),
    (
        gx.PermissionDenied(
            "Permission denied on 'locations/us-central1-b' (or it may not exist).",
            error_info=info("LOCATION_POLICY_VIOLATED"),
        ),
        "permission_denied",
        "zone us-central1-b does not exist or is not available",
    ),
    (
        gx.NotFound("Location us-east1-d is not found or access is unauthorized."),
        "permission_denied",
        "Zones that offer v5litepod-8",
    ),
    (
        gx.PermissionDenied(
            'User does not have permission to submit requests for accelerator type "v5litepod-8" in location x.'
        ),
        "not_allowlisted",
        "Waiting won't help",
    ),
    (
        gx.PermissionDenied("Permission 'tpu.nodes.create' denied on 'projects/my-project'"),
        "permission_denied",
        "you lack the permission tpu.nodes.create",
    ),
    (gx.PermissionDenied("Read access to project 'x' was denied"), "permission_denied", "have no access to it"),
    (
        gx.PermissionDenied("Cloud TPU API has not been used in project 1032299714650 before or it is disabled."),
        "api_disabled",
        "gcloud services enable tpu.googleapis.com --project=my-project",
    ),
    (gx.PermissionDenied("Nope.", error_info=info("SERVICE_DISABLED")), "api_disabled", "not enabled"),
    (gx.PermissionDenied("Nope.", error_info=info("BILLING_DISABLED")), "permission_denied", "billing is not enabled"),
    (gx.AlreadyExists("Resource 'projects/..' already exists"), "node_exists", "Choose another name"),
    (gx.NotFound("Resource 'projects/..' was not found"), "node_not_found", "jupyter tpu list"),
    (gx.Unauthenticated("Request had invalid authentication credentials."), "credentials_missing", "gcloud auth"),
    (
        gx.ServiceUnavailable("Getting metadata from plugin failed with error: ('invalid_grant: Token has expired')"),
        "credentials_missing",
        "gcloud auth application-default login",
    ),
    (ax.DefaultCredentialsError("none"), "credentials_missing", "jupyter tpu demo"),
    (ax.RefreshError("expired"), "credentials_missing", "gcloud auth application-default login"),
    (gx.ServiceUnavailable("502:Bad Gateway"), "cloud_unavailable", "is not responding"),
    (gx.DeadlineExceeded("504"), "cloud_unavailable", "is not responding"),
    (gx.InternalServerError("an internal error has occurred"), "cloud_unavailable", "had an internal error"),
    (gx.Unknown("Received http2 header with status: 200 <html>"), "cloud_unavailable", "such as a proxy"),
    (gx.RetryError("gave up", cause=gx.ServiceUnavailable("503")), "cloud_unavailable", "is not responding"),
    (TimeoutError(), "cloud_unavailable", "is not responding"),
    (gx.InvalidArgument("cidr is wrong"), "bad_input", "Message from the cloud: cidr is wrong"),
    (gx.InvalidArgument("cidr is wrong"), "bad_input", "did not accept the request."),
]


@pytest.mark.parametrize(("exception", "code", "words"), REFUSALS, ids=lambda value: getattr(value, "message", None))
def test_a_refusal_becomes_our_error(exception: Any, code: str, words: str) -> None:
    error = error_of_exception(CREATE, exception)
    assert error.code == code
    assert words in str(error)
    assert error.hint


def test_the_clouds_own_words_are_kept_as_raw() -> None:
    error = error_of_exception(CREATE, gx.InvalidArgument("<b>odd</b> words"))
    assert error.raw == "<b>odd</b> words"


def test_a_failed_operation_raised_by_the_asynchronous_client_keeps_its_kind() -> None:
    """That client raises a bare GoogleAPICallError without a code of its own."""
    status = status_pb2.Status(code=8, message='There is no more capacity in the zone "us-central1-b"')
    bare = gx.GoogleAPICallError("Operation failed", errors=(status,), response=None)
    assert (bare.code, bare.grpc_status_code) == (None, None)
    assert error_of_exception(CREATE, bare).code == "out_of_capacity"


@pytest.mark.parametrize(
    ("number", "text", "code"),
    [
        (8, "There is no more capacity in the zone", "out_of_capacity"),
        (8, "Insufficient reserved capacity.", "out_of_capacity"),
        (5, "Reservation not found", "bad_input"),
        (3, "create is not supported while in state PREEMPTED", "wrong_state"),
        (7, 'User does not have permission to submit requests for accelerator type "x"', "not_allowlisted"),
        (9, "anything", "wrong_state"),
        (13, "an internal error has occurred", "cloud_unavailable"),
        (99, "a code of the future", "cloud_refused"),
    ],
)
def test_the_failure_inside_an_operation_becomes_our_error(number: int, text: str, code: str) -> None:
    assert error_of_status(CREATE, status_pb2.Status(code=number, message=text + EID)).code == code


@pytest.mark.parametrize("number", [4, 14])
def test_an_operation_that_ended_was_answered(number: int) -> None:
    error = error_of_status(CREATE, status_pb2.Status(code=number, message="The service is currently unavailable."))
    assert error.code == "cloud_unavailable"
    assert "had an internal error" in error.message
    assert "Message from the cloud: The service is currently unavailable." in error.hint
    assert "network" not in str(error)


def test_the_details_of_an_operations_failure_are_read() -> None:
    detail = any_pb2.Any()
    detail.Pack(QUOTA_FAILURE)
    status = status_pb2.Status(code=8, message="No.", details=[detail])
    assert error_of_status(CREATE, status).code == "quota_exceeded"


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_every_status_code_becomes_an_error_with_a_way_on(code: grpc.StatusCode) -> None:
    error = error_of_exception(CREATE, gx.from_grpc_status(code, "words"))
    assert error.message.startswith("Could not create node 'my-node' in us-central1-b: ")
    assert error.hint


BIDI = "v5\u202elitepod\x1b[2J\u2066-8\x07\x9b"


def test_texts_of_the_cloud_lose_what_steers_a_terminal_or_turns_text_around() -> None:
    message = tpu_v2.Node.pb(
        tpu_v2.Node(
            name="projects/my-project/locations/us-central1-a/nodes/my-node",
            accelerator_type=BIDI,
            runtime_version=BIDI,
            health_description=f"{BIDI}\n{'x' * 5000}",
            description=BIDI,
        )
    )
    node = node_of(message)
    assert (node.accelerator_type, node.runtime_version, node.description) == ("v5litepod[2J-8",) * 3
    assert node.health_description.startswith("v5litepod[2J-8 xxx")
    assert len(node.health_description) <= 2000
    refused = error_of_status(CREATE, status_pb2.Status(code=3, message=f"bad {BIDI}"))
    assert not {"\u202e", "\u2066", "\x1b", "\x07", "\x9b"} & set(str(refused) + refused.to_json()["raw"])
