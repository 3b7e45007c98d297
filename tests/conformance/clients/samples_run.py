"""Runs Google's own samples of the Cloud TPU clients against an emulator; prints those that failed as JSON.

Arguments: the folder with the samples, the emulator's gRPC address, the project, the zone, and ``nodes`` or ``queue``.
The samples name no endpoint, so the two classes of clients that they make are replaced.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
from collections.abc import Callable
from typing import Any

import grpc
from google.cloud import tpu_v2, tpu_v2alpha1

FOLDER, ADDRESS, PROJECT, ZONE, PART = sys.argv[1:]
V2_ZONE = "us-central1-b"
"""The sample that asks for a v2 says so in a comment; us-central1-a has none."""
NODES = (
    ("create_tpu", "create_cloud_tpu", "plain"),
    ("create_tpu_spot", "create_tpu_with_spot", "spot"),
    ("create_tpu_topology", "create_cloud_tpu_with_topology", "topology"),
    ("create_tpu_with_script", "create_cloud_tpu_with_script", "script"),
    ("list_tpu", "list_cloud_tpu"),
    ("get_tpu", "get_cloud_tpu", "plain"),
    ("stop_tpu", "stop_cloud_tpu", "plain"),
    ("start_tpu", "start_cloud_tpu", "plain"),
    ("delete_tpu", "delete_cloud_tpu", "plain"),
)
QUEUE = (
    ("queued_resources_create", "create_queued_resource", "q1"),
    ("queued_resources_create_network", "create_queued_resource_network", "q2"),
    ("queued_resources_create_spot", "create_queued_resource_spot", "q3"),
    ("queued_resources_create_startup_script", "create_queued_resource_startup_script", "q4"),
    ("queued_resources_create_time_bound", "create_queued_resource_time_bound", "q5"),
    ("queued_resources_get", "get_queued_resource", "q1"),
    ("queued_resources_list", "list_queued_resources"),
    ("queued_resources_delete", "delete_queued_resource", "q1"),
    ("queued_resources_delete_force", "delete_force_queued_resource", "q2"),
    ("queued_resources_delete", "delete_queued_resource", "q3"),
    ("queued_resources_delete_force", "delete_force_queued_resource", "q4"),
)


def client_of(package: Any) -> Callable[[], Any]:
    client, transport = package.TpuClient, package.TpuClient.get_transport_class("grpc")
    return lambda: client(transport=transport(channel=grpc.insecure_channel(ADDRESS), host=ADDRESS))


def run(module: str, function: str, *names: str) -> str:
    """What went wrong; empty when nothing did."""
    act = getattr(importlib.import_module(module), function)
    named = {"tpu_name": f"node-{names[0]}", "queued_resource_name": names[0]} if "create_queued" in function else {}
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            place = (PROJECT, V2_ZONE if "topology" in module else ZONE)
            act(*place, **named) if named else act(*place, *names)
    except Exception as error:  # noqa: BLE001 - told to the test
        return f"{module}: {error}"
    if module == "delete_tpu" and "deleted" not in said.getvalue():  # it prints its error
        return f"{module}: {said.getvalue()}"
    return ""


def main() -> None:
    sys.path.insert(0, FOLDER)
    for package in (tpu_v2, tpu_v2alpha1):
        package.TpuClient = client_of(package)
    calls = {"nodes": NODES, "queue": QUEUE}[PART]
    failures = [said for said in (run(*call) for call in calls) if said]
    sys.stdout.write(json.dumps({"calls": len(calls), "failures": failures}) + "\n")


main()
