"""Runs in SkyPilot's own environment: its provisioner of TPU VMs against an emulator; prints what it saw as JSON.

Arguments: the emulator's REST address, the project and the zone. SkyPilot has no option for another endpoint, so the
one function that builds its clients is replaced.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import googleapiclient.discovery
from google.auth.credentials import AnonymousCredentials
from sky.adaptors import gcp
from sky.provision import common
from sky.provision.gcp.instance_utils import GCPTPUVMInstance

ADDRESS, PROJECT, ZONE = sys.argv[1:]
CONFIG = {
    "acceleratorType": "v5litepod-8",
    "runtimeVersion": "v2-alpha-tpuv5-lite",
    "networkConfig": {"enableExternalIps": True},
    "schedulingConfig": {"preemptible": False},
    "metadata": {"ssh-keys": "me:ssh-ed25519 AAAA"},
}


def build(service: str, version: str, *_: Any, **__: Any) -> Any:
    options = {"api_endpoint": f"{ADDRESS}/"}
    return googleapiclient.discovery.build(
        service, version, credentials=AnonymousCredentials(), client_options=options, static_discovery=True
    )


def create(cluster: str, **more: Any) -> tuple[Any, list[str]]:
    return GCPTPUVMInstance.create_instances(cluster, PROJECT, ZONE, {**CONFIG, **more}, {"a": "b"}, 1, 1, True)


def delete_all() -> list[str]:
    """States of what was found; all of it is deleted."""
    found = GCPTPUVMInstance.filter(PROJECT, ZONE, {"a": "b"}, None)
    for name in found:
        GCPTPUVMInstance.wait_for_operation(GCPTPUVMInstance.terminate(PROJECT, ZONE, name), PROJECT, zone=ZONE)
    return [node["state"] for node in found.values()]


def main() -> None:
    gcp.build = build
    errors, names = create("plain")
    [name] = GCPTPUVMInstance.filter(PROJECT, ZONE, {"a": "b"}, ["READY"])
    GCPTPUVMInstance.set_labels(PROJECT, ZONE, name, {"c": "d"})
    GCPTPUVMInstance.add_network_tag_if_not_exist(PROJECT, ZONE, name, "sky")
    [node] = GCPTPUVMInstance.filter(PROJECT, ZONE, {"c": "d"}, None).values()
    network = GCPTPUVMInstance.get_vpc_name(PROJECT, ZONE, name)
    seen: dict[str, Any] = {"plain": [errors, len(names), node["tags"], network], "states": delete_all()}
    seen["queued"] = create("queued", gcp_queued_resource=True)[0]
    seen["quota"] = create("quota", acceleratorType="v5litepod-64")[0]
    print(json.dumps(seen))  # noqa: T201 - what the test reads


if __name__ == "__main__":
    try:
        main()
    except common.ProvisionerError as error:
        sys.exit(f"{error}: {error.errors}")
