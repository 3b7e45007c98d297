"""What only REST or only v2alpha1 has: kept beside the resource, shown to those who can read it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

NODE = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite"}
NUMBER = "123456789012"

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(emulator: Any) -> Ask:
    """GET without a body, else POST."""

    def answer(path: str, body: Any = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(emulator.rest + path, data, headers), timeout=120) as got:
            return dict(json.load(got))

    return answer


def test_flex_start_is_v2alpha1s_alone(ask: Ask, emulator: Any) -> None:
    queued = f"{emulator.parent}/queuedResources"
    spec = {"parent": emulator.parent, "nodeId": "n1", "node": NODE}
    body = {
        "provisioningModel": "FLEX_START",
        "queueingPolicy": {"validUntilDuration": "14400s"},
        "runDuration": {"maxRunDuration": "14400s"},
        "tpu": {"nodeSpec": [spec]},
    }

    started = ask(f"/v2alpha1/{queued}?queuedResourceId=q1", body)
    shown = {version: ask(f"/{version}/{queued}/q1") for version in ("v2", "v2alpha1")}

    assert started["metadata"]["@type"].endswith(".v2alpha1.OperationMetadata")
    assert shown["v2alpha1"]["provisioningModel"] == "FLEX_START"
    assert shown["v2alpha1"]["runDuration"]["maxRunDuration"] == "14400s"
    assert not shown["v2"].keys() & {"provisioningModel", "runDuration"}


def test_a_boot_disk_shows_in_each_version_what_the_version_knows(ask: Ask, emulator: Any) -> None:
    disk = {"customerEncryptionKey": {"kmsKeyName": "projects/p/key"}, "diskSizeGb": "200", "storagePool": "pool"}

    ask(f"/v2alpha1/{emulator.parent}/nodes?nodeId=n1", {**NODE, "bootDiskConfig": disk})
    shown = {version: ask(f"/{version}/{emulator.node_name('n1')}") for version in ("v2", "v2alpha1")}

    assert shown["v2alpha1"]["bootDiskConfig"] == disk
    assert shown["v2"]["bootDiskConfig"] == {"customerEncryptionKey": disk["customerEncryptionKey"]}
    assert (shown["v2"]["apiVersion"], shown["v2alpha1"]["apiVersion"]) == ("V2_ALPHA1", "V2_ALPHA1")


def test_queued_resources_show_what_no_document_lists_when_asked_to(ask: Ask, emulator: Any) -> None:
    queued = f"{emulator.parent}/queuedResources"
    spec = {"parent": emulator.parent, "nodeId": "n1", "node": NODE}
    ask(f"/v2/{queued}?queuedResourceId=q1", {"tpu": {"nodeSpec": [spec]}})
    plain = ask(f"/v2/{queued}/q1")["tpu"]["nodeSpec"][0]

    ask("/emulator/v1/project", {"undocumented_fields": True, "numbers_in_names": True})
    odd = ask(f"/v2/{queued}")["queuedResources"][0]

    assert plain["parent"] == emulator.parent
    assert not plain["node"].keys() & {"bootDisk", "useTpuVm"}
    assert odd["name"] == f"{queued}/q1"
    assert odd["tpu"]["nodeSpec"][0]["parent"] == f"projects/{NUMBER}/locations/{emulator.zone}"
    assert odd["tpu"]["nodeSpec"][0]["node"]["bootDisk"] == {}
    assert odd["tpu"]["nodeSpec"][0]["node"]["useTpuVm"] is True


def test_names_may_have_the_projects_number(ask: Ask, emulator: Any) -> None:
    by_number = emulator.parent.replace(emulator.project, NUMBER)

    started = ask(f"/v2/{by_number}/nodes?nodeId=n1", NODE)

    assert started["metadata"]["target"] == emulator.node_name("n1")
    assert ask(f"/v2/{by_number}/nodes/n1")["name"] == emulator.node_name("n1")


def test_answers_are_printed_for_people_unless_asked_otherwise(emulator: Any) -> None:
    with urllib.request.urlopen(f"{emulator.rest}/v2/{emulator.parent}", timeout=120) as pretty:
        lines = pretty.read().decode().splitlines()
    with urllib.request.urlopen(f"{emulator.rest}/v2/{emulator.parent}?prettyPrint=false", timeout=120) as plain:
        text = plain.read().decode()

    assert lines == ["{", f'  "name": "{emulator.parent}",', f'  "locationId": "{emulator.zone}"', "}"]
    assert text == f'{{"name":"{emulator.parent}","locationId":"{emulator.zone}"}}'
