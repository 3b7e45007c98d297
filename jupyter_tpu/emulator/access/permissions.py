"""The IAM permission that each method of the API requires."""

from __future__ import annotations

from collections.abc import Iterable

from jupyter_tpu.emulator.resources.behaviours import assumed, documented

PERMISSIONS = {
    "ListNodes": "tpu.nodes.list",
    "GetNode": "tpu.nodes.get",
    "CreateNode": "tpu.nodes.create",
    "DeleteNode": "tpu.nodes.delete",
    "StopNode": "tpu.nodes.stop",
    "StartNode": "tpu.nodes.start",
    "UpdateNode": "tpu.nodes.update",
    "GetGuestAttributes": "tpu.nodes.get",
    "PerformMaintenance": "tpu.nodes.performMaintenance",
    "SimulateMaintenanceEvent": "tpu.nodes.simulateMaintenanceEvent",
    "ListQueuedResources": "tpu.nodes.list",
    "GetQueuedResource": "tpu.nodes.get",
    "GetMaintenanceInfo": "tpu.nodes.get",
    "CreateQueuedResource": "tpu.nodes.create",
    "DeleteQueuedResource": "tpu.nodes.delete",
    "ResetQueuedResource": "tpu.nodes.reset",
    "PerformMaintenanceQueuedResource": "tpu.nodes.performMaintenance",
    "ListReservations": "tpu.nodes.list",
    "GenerateServiceIdentity": "tpu.nodes.create",
    "ListAcceleratorTypes": "tpu.acceleratortypes.list",
    "GetAcceleratorType": "tpu.acceleratortypes.get",
    "ListRuntimeVersions": "tpu.runtimeversions.list",
    "GetRuntimeVersion": "tpu.runtimeversions.get",
    "ListLocations": "tpu.locations.list",
    "GetLocation": "tpu.locations.get",
    "ListOperations": "tpu.operations.list",
    "GetOperation": "tpu.operations.get",
    "CancelOperation": "tpu.operations.get",
    "DeleteOperation": "tpu.operations.get",
}


@documented(
    "permissions",
    "Nodes, accelerator types, runtime versions, locations and operations require the permissions listed on "
    "IAM's page.",
    source="cloud.google.com/iam/docs/roles-permissions/tpu",
)
@assumed(
    "permissions-of-queues",
    "IAM's page lists no permissions for queued resources, reservations or service identities, or for "
    "cancelling or deleting operations. In the emulator, the methods of these three kinds require the "
    "permissions for nodes. Cancelling or deleting an operation requires the permission to read it.",
)
def permission_of(method: str) -> str:
    """Return the permission of a method: ``tpu.nodes.create`` for ``CreateNode``."""
    # a method that is missing here can still be denied with tpu.*
    return PERMISSIONS.get(method, f"tpu.{method}")


def is_denied(permission: str, denied: Iterable[str]) -> bool:
    """Return whether a list with entries such as ``tpu.nodes.list`` or ``tpu.nodes.*`` covers a permission."""
    family = permission.rpartition(".")[0]
    return not {permission, f"{family}.*", "tpu.*"}.isdisjoint(denied)
