"""Validate a create request and build its node, including the fields that the service fills in."""

from __future__ import annotations

import secrets

from jupyter_tpu.emulator.nodes import validation
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.clock import VirtualClock
from jupyter_tpu.emulator.resources.names import Location
from jupyter_tpu.emulator.resources.protos import API_VERSION_V2, API_VERSION_V2_ALPHA1, NodePb, State
from jupyter_tpu.emulator.resources.request import V2

# only the service sets these fields; it ignores them in requests, because clients send whole nodes back
OUTPUT_ONLY = (
    "state",
    "health",
    "health_description",
    "network_endpoints",
    "symptoms",
    "queued_resource",
    "multislice_node",
    "create_time",
    "id",
)


class NewNodes:
    """Builds nodes without storing them."""

    def __init__(self, clock: VirtualClock, project_number: str) -> None:
        self._clock = clock
        self._project_number = project_number

    @assumed(
        "filled-in-fields",
        "A new node gets both accelerator_type and accelerator_config, the default network, a default service "
        "account, a random id, and the api_version of the create request.",
    )
    def make(self, requested: NodePb, location: Location, node_id: str, version: str = V2) -> NodePb:
        """Return the node to store, in the state CREATING.

        Raises:
            Refusal: the request is invalid.
        """
        kind = validation.check_new_node(requested, location.zone)
        node = _without_output_fields(requested)
        node.name = f"{location}/nodes/{node_id}"
        # set both fields, because clients read either one
        node.accelerator_type = kind.type
        node.accelerator_config.type_ = validation.config_type_of(kind)
        node.accelerator_config.topology = kind.topology
        node.api_version = API_VERSION_V2 if version == V2 else API_VERSION_V2_ALPHA1
        self._fill_in(node, location)
        return node

    @assumed(
        "external-address-default",
        "A node without a network configuration gets external addresses. According to observations, the real API "
        "gives such a node no external addresses; gcloud requests them explicitly.",
    )
    def _fill_in(self, node: NodePb, location: Location) -> None:
        # this differs from the real API (see the behaviour above)
        if not node.HasField("network_config") and not node.network_configs:
            node.network_config.enable_external_ips = True
        if node.HasField("network_config") and "/" not in node.network_config.network:
            network = node.network_config.network or "default"
            node.network_config.network = f"projects/{location.project}/global/networks/{network}"
        if not node.service_account.email:
            node.service_account.email = f"{self._project_number}-compute@developer.gserviceaccount.com"
        node.state = State.CREATING
        node.id = secrets.randbits(62)  # a positive int64, as in the API
        node.create_time.FromNanoseconds(int(self._clock.now() * 1e9))


def _without_output_fields(requested: NodePb) -> NodePb:
    node = type(requested)()
    node.CopyFrom(requested)
    for name in OUTPUT_ONLY:
        node.ClearField(name)
    return node
