"""The errors of the emulated cloud, as ``google.rpc.Status``, word for word as recorded from the real service.

E1 to E14 number the recorded errors (docs/explanation/fidelity.md lists them with their sources). Never edit a text
that is tagged ``recorded``. This module is independent of gRPC and HTTP: each transport renders a `Refusal` in its own
way.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

from google.protobuf import any_pb2
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from jupyter_tpu.emulator.resources.behaviours import assumed, recorded

BAD_REQUEST = "Cloud TPU received a bad request. "
REGIONS_PAGE = "https://cloud.google.com/tpu/docs/regions"
CONSOLE = "https://console.developers.google.com/apis/api/tpu.googleapis.com/overview"


class Refusal(Exception):
    """The cloud rejects a call; `status` is the error that the client receives."""

    def __init__(self, status: status_pb2.Status) -> None:
        super().__init__(status.message)
        self.status = status


class WireFault(Exception):
    """A scripted fault for which the transport replaces or changes the response; `wire_faults` lists the kinds.

    `answer` is the result of the call, or None if the call was not performed.
    """

    def __init__(self, kind: str, answer: Message | None = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.answer = answer


def status_of(code: int, message: str, details: Iterable[Message] = ()) -> status_pb2.Status:
    """Build a ``google.rpc.Status`` from a code, a message and details."""
    status = status_pb2.Status(code=code, message=message)
    for detail in details:
        status.details.append(packed(detail))
    return status


def packed(message: Message) -> any_pb2.Any:
    """Return a message in an ``Any``."""
    wrapper = any_pb2.Any()
    wrapper.Pack(message)
    return wrapper


_CODES: dict[str, int] = {
    str(word): number for name, number in code_pb2.Code.items() if number != code_pb2.OK for word in (name, number)
}


def code_number(word: object) -> int:
    """Return the number of a google.rpc.Code by name or number; raises ValueError for anything else, including OK."""
    if str(word) not in _CODES:
        raise ValueError(f"{word!r} is not an error code of google.rpc.Code")
    return _CODES[str(word)]


@recorded(
    "error-id",
    "Many refusals end with ' [EID: 0x<16 lower-case hex digits>]'.",
    source="terraform-provider-google#21243; SkyPilot sky/backends/cloud_vm_ray_backend.py",
)
def error_id() -> str:
    """Return the id that the service appends to many error messages."""
    return f" [EID: 0x{secrets.token_hex(8)}]"


@recorded(
    "E1-stock-out",
    "If a zone has no capacity, the operation of a create or start fails with code 8, although the call itself "
    "succeeds. The new node disappears.",
    source="thevasudevgupta/gsoc-wav2vec2#11; terraform-provider-google#21243; SkyPilot cloud_vm_ray_backend.py",
)
def stockout(zone: str) -> status_pb2.Status:
    """Return the error of an operation in a zone without capacity."""
    message = (
        f'There is no more capacity in the zone "{zone}"; you can try in another zone where Cloud TPU Nodes are '
        f"offered (see {REGIONS_PAGE})"
    )
    return status_of(code_pb2.RESOURCE_EXHAUSTED, message + error_id())


@dataclass(frozen=True, slots=True)
class QuotaLimit:
    """An exceeded limit; `place` is ``zone us-east5-a`` or ``region us-east5``."""

    quota_id: str
    limit: int
    place: str


@recorded(
    "E2-quota",
    "If a quota is used up, the call itself is refused with 429 and a QuotaFailure in the details; no node is created.",
    source="full body in a public repository's log; marin-community/marin#1612",
)
def quota_exceeded(quota_id: str, limit: int, zone: str, project_number: str) -> Refusal:
    """Return the error for one exceeded quota limit of a zone."""
    return quotas_exceeded([QuotaLimit(quota_id, limit, f"zone {zone}")], project_number)


@recorded(
    "E2b-quotas",
    "When several limits are exceeded, the message lists their ids, limits and locations.",
    source="BioMedBERT/biomedbert nohup.out",
)
@assumed("E2b-details", "When several limits are exceeded, the error details contain one violation for each limit.")
def quotas_exceeded(exceeded: Sequence[QuotaLimit], project_number: str) -> Refusal:
    """Return the error for exceeded quotas, which lists all exceeded limits."""
    # the real service joins each column with commas, without spaces (behaviour `E2b-quotas`)
    names, limits, places = (",".join(map(str, column)) for column in zip(*map(astuple, exceeded), strict=True))
    message = f"Quota limit '{names}' has been exceeded. Limit: {limits} in {places}."
    # it is assumed that there is one violation per limit (behaviour `E2b-details`)
    violations = [
        error_details_pb2.QuotaFailure.Violation(
            subject=f"project:{project_number}",
            description=f"Quota '{each.quota_id}' exhausted. Limit {each.limit} in {each.place}",
        )
        for each in exceeded
    ]
    details = [error_details_pb2.QuotaFailure(violations=violations)]
    return Refusal(status_of(code_pb2.RESOURCE_EXHAUSTED, message, details))


@recorded(
    "E4-type-not-in-zone",
    "An accelerator type that the zone does not offer is refused with 400 and the recorded text.",
    source="logs of two public repositories, on create of nodes and of queued resources",
)
def type_not_in_zone(accelerator_type: str, zone: str) -> Refusal:
    """Return the error for a type that the zone does not offer."""
    message = (
        f"{BAD_REQUEST}The requested accelerator configuration for accelerator type, "
        f'"{accelerator_type}", could not be found in the zonal accelerator configurations for "{zone}".; '
        f"the accelerator {accelerator_type} was not found in zone {zone}"
    )
    return Refusal(status_of(code_pb2.INVALID_ARGUMENT, message + error_id()))


@recorded(
    "E5-wrong-state",
    "A verb that the node's state does not allow is refused with code 3; the message names the verb and the state.",
    source="SkyPilot sky/backends/cloud_vm_ray_backend.py (update of a PREEMPTED node)",
)
def wrong_state(verb: str, state: str) -> Refusal:
    """Return the error for a method that can't be called in the resource's current state."""
    message = f"{BAD_REQUEST}{verb} is not supported while in state {state}"
    return Refusal(status_of(code_pb2.INVALID_ARGUMENT, message + error_id()))


@recorded(
    "E6-zone-unknown",
    "A zone that does not exist or is not allowed is refused with 403 LOCATION_POLICY_VIOLATED.",
    source="log of a public repository; SkyPilot's handler",
)
def zone_unknown(zone: str, project: str) -> Refusal:
    """Return the error for a zone that is unknown or not allowed."""
    info = error_details_pb2.ErrorInfo(
        reason="LOCATION_POLICY_VIOLATED",
        domain="googleapis.com",
        metadata={"consumer": f"projects/{project}", "location": zone, "service": "tpu.googleapis.com"},
    )
    message = f"Permission denied on 'locations/{zone}' (or it may not exist)."
    return Refusal(status_of(code_pb2.PERMISSION_DENIED, message, [info]))


@recorded(
    "E7-not-allowlisted",
    "A request from a project without access to the type is refused with code 7; retries never help.",
    source="logs of three public repositories",
)
def not_allowlisted(accelerator_type: str, zone: str) -> Refusal:
    """Return the error for a node whose type the project may not use."""
    message = (
        "User does not have permission to submit requests for accelerator type "
        f'"{accelerator_type}" in location {zone}.'
    )
    return Refusal(status_of(code_pb2.PERMISSION_DENIED, message))


@recorded(
    "E7-queue-closed",
    "A queued resource is refused with code 7 if the queue is closed to the project; retries never help.",
    source="logs of three public repositories",
)
def not_allowlisted_in_queue(accelerator_type: str, zone: str) -> Refusal:
    """Return the error for a queued resource whose type the project may not use."""
    message = (
        "User does not have permission to submit requests into this queue for accelerator type "
        f"{accelerator_type} in location {zone}."
    )
    return Refusal(status_of(code_pb2.PERMISSION_DENIED, message))


@recorded(
    "E8-permission-denied",
    "A call without the required IAM permission is refused with 403; the message names the permission.",
    source="SkyPilot instance_utils.filter; tensorflow/tpu#227, #284",
)
def permission_denied(permission: str, resource: str) -> Refusal:
    """Return the error for a missing IAM permission."""
    message = f"Permission '{permission}' denied on '{resource}' (or it may not exist)."
    return Refusal(status_of(code_pb2.PERMISSION_DENIED, message))


@recorded(
    "E8-project-denied",
    "Access to a project that the caller may not read is refused with 403 and the recorded text.",
    source="tensorflow/tpu#227, #284",
)
def project_denied(project: str) -> Refusal:
    """Return the error for a project that the caller may not access."""
    return Refusal(status_of(code_pb2.PERMISSION_DENIED, f"Read access to project '{project}' was denied"))


@recorded(
    "E9-api-disabled",
    "If the Cloud TPU API is disabled in a project, calls are refused with 403 and a link to enable the API.",
    source="log of a public repository",
)
@assumed(
    "E9-details",
    "The error of a disabled API contains an ErrorInfo SERVICE_DISABLED, as in other Google APIs.",
)
def api_disabled(project_number: str) -> Refusal:
    """Return the error for a project in which the API is disabled."""
    message = (
        f"Cloud TPU API has not been used in project {project_number} before or it is disabled. Enable it by visiting "
        f"{CONSOLE}?project={project_number} then retry. If you enabled this API recently, wait a few minutes for the "
        "action to propagate to our systems and retry."
    )
    info = error_details_pb2.ErrorInfo(
        reason="SERVICE_DISABLED",
        domain="googleapis.com",
        metadata={"consumer": f"projects/{project_number}", "service": "tpu.googleapis.com"},
    )
    return Refusal(status_of(code_pb2.PERMISSION_DENIED, message, [info]))


@recorded(
    "E11-create-rate",
    "More than about 91 CreateNode requests per minute are refused with 429; the message names the limit.",
    source="marin-community/marin#6198, #6138",
)
@assumed(
    "E11-words",
    "If a rate limit refuses a request, the error names the limit in its message and in its details, as "
    "in other Google APIs.",
)
def create_rate_exceeded(limit: int, project_number: str) -> Refusal:
    """Return the error for too many creates per minute."""
    # only the limit's name was recorded; the other words of the sentence are ours (behaviour `E11-words`)
    quota = "Maximum number of CreateNode requests"
    message = (
        f"Quota exceeded for quota metric '{quota}' and limit '{quota} per minute' of service 'tpu.googleapis.com' "
        f"for consumer 'project_number:{project_number}'."
    )
    metadata = {
        "consumer": f"projects/{project_number}",
        "quota_limit_value": str(limit),
        "quota_metric": "tpu.googleapis.com/qps/create",
        "service": "tpu.googleapis.com",
    }
    info = error_details_pb2.ErrorInfo(reason="RATE_LIMIT_EXCEEDED", domain="googleapis.com", metadata=metadata)
    return Refusal(status_of(code_pb2.RESOURCE_EXHAUSTED, message, [info]))


@recorded(
    "E13-flaky-zone",
    "A zone with a broken front end refuses every call with 503.",
    source="dstackai/gpuhunt providers/gcp.py (ListAcceleratorTypes in us-east1-b)",
)
def zone_unavailable() -> Refusal:
    """Return the error for a zone with a broken front end."""
    return Refusal(status_of(code_pb2.UNAVAILABLE, "502:Bad Gateway"))


@assumed(
    "E14-exists",
    "Creating a node with an existing id is refused with 409 ALREADY_EXISTS and a ResourceInfo; the "
    "wording is invented.",
)
def already_exists(name: str) -> Refusal:
    """Return the error for a name that already exists."""
    info = error_details_pb2.ResourceInfo(resource_name=name)
    return Refusal(status_of(code_pb2.ALREADY_EXISTS, f"Resource '{name}' already exists", [info]))


@assumed(
    "E14-missing",
    "A request for a missing resource is refused with 404 NOT_FOUND and a ResourceInfo; the wording is invented.",
)
def not_found(name: str) -> Refusal:
    """Return the error for a resource that does not exist."""
    info = error_details_pb2.ResourceInfo(resource_name=name)
    return Refusal(status_of(code_pb2.NOT_FOUND, f"Resource '{name}' was not found", [info]))


@assumed("bad-field", "A request with an invalid field is refused with 400 and a BadRequest; the wording is invented.")
def bad_field(field: str, description: str) -> Refusal:
    """Return the error for an invalid field."""
    violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=description)
    details = [error_details_pb2.BadRequest(field_violations=[violation])]
    return Refusal(status_of(code_pb2.INVALID_ARGUMENT, f"{BAD_REQUEST}{description}", details))


def unimplemented(method: str) -> Refusal:
    """Return the error for a method of the real API that the emulator does not implement."""
    return Refusal(status_of(code_pb2.UNIMPLEMENTED, f"The emulator does not implement {method}."))


def cancelled() -> status_pb2.Status:
    """Return the error of a cancelled operation."""
    return status_of(code_pb2.CANCELLED, "The operation was cancelled.")


def internal_error() -> status_pb2.Status:
    """Return the error with which the real service reports its own failures."""
    return status_of(code_pb2.INTERNAL, "an internal error has occurred" + error_id())
