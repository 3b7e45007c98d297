"""The errors with which operations and queued resources fail after their call was accepted.

Two further errors of operations are in `errors`: a lack of capacity, and the internal error.
"""

from __future__ import annotations

from google.rpc import code_pb2, status_pb2

from jupyter_tpu.emulator.resources.behaviours import assumed, recorded
from jupyter_tpu.emulator.resources.errors import error_id, status_of


@recorded(
    "E3-reserved-capacity",
    "If a reservation is used up, the operation fails with code 8 (9 was also observed) and the recorded text.",
    source="skypilot-org/skypilot#4579 (8); SkyPilot cloud_vm_ray_backend.py (9)",
)
@assumed(
    "E3-code",
    "If a reservation is exhausted, the operation fails with code 8 for a node, and with code 9 for a queued resource.",
)
def reserved_capacity_short(*, is_queued: bool = False) -> status_pb2.Status:
    """Return the error for a reservation with too few free chips."""
    code = code_pb2.FAILED_PRECONDITION if is_queued else code_pb2.RESOURCE_EXHAUSTED
    message = "Insufficient reserved capacity. Contact customer support to increase your reservation."
    return status_of(code, message + error_id())


@recorded(
    "E3-reservation-missing",
    "If the reservation does not exist, the operation fails with code 5.",
    source="logs of two public repositories",
)
def reservation_not_found() -> status_pb2.Status:
    """Return the error for a reservation that does not exist."""
    return status_of(code_pb2.NOT_FOUND, "Reservation not found")


@recorded(
    "E10-addresses",
    "When a region's external IP addresses are used up, a queued resource goes from PROVISIONING through "
    "SUSPENDING to FAILED, with the recorded text. Nodes with only internal addresses are not affected.",
    source="notes of three public repositories (limits of 4 and 8 per region)",
)
def addresses_used_up() -> status_pb2.Status:
    """Return the error for a region without free external IP addresses."""
    return status_of(code_pb2.RESOURCE_EXHAUSTED, "You have reached IN_USE_ADDRESSES limit." + error_id())


@recorded(
    "E12-flex-start",
    "If flex-start is not offered for the type in the zone, the create operation fails with code 3.",
    source="logs of four public repositories; accepted for v5litepod-1 in us-west4-a only",
)
def flex_start_unsupported(accelerator_type: str, zone: str) -> status_pb2.Status:
    """Return the error for a zone that does not offer flex-start for the type."""
    message = (
        f'FLEX_START provisioning model is not supported for accelerator type "{accelerator_type}" in location "{zone}"'
    )
    return status_of(code_pb2.INVALID_ARGUMENT, message)
