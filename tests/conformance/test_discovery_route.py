"""Google's discovery client builds itself from the document that the emulator serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from discovery_documents import document
from google.auth.credentials import AnonymousCredentials
from googleapiclient import discovery


def built(emulator: Any, version: str) -> Any:
    address = f"{emulator.rest}/$discovery/rest?version={version}"
    return discovery.build(
        "tpu", version, credentials=AnonymousCredentials(), discoveryServiceUrl=address, static_discovery=False
    )


@pytest.mark.shows("discovery")
@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_a_client_that_is_built_from_the_emulators_document_works(emulator: Any, version: str) -> None:
    with built(emulator, version) as client:
        nodes = client.projects().locations().nodes()
        body = {"acceleratorType": emulator.accelerator_type, "runtimeVersion": emulator.runtime_version}
        for node_id in ("n1", "n2"):
            nodes.create(parent=emulator.parent, nodeId=node_id, body=body).execute()
        first = nodes.list(parent=emulator.parent, pageSize=1)
        page = first.execute()
        second = nodes.list_next(first, page).execute()

    names = [node["name"] for each in (page, second) for node in each["nodes"]]
    assert names == [emulator.node_name("n1"), emulator.node_name("n2")]


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_it_has_the_methods_of_googles_own_document(emulator: Any, version: str) -> None:
    with built(emulator, version) as client:
        ours = {each["id"]: shape(each) for each in methods_of(client._resourceDesc)}
    theirs = {each["id"]: shape(each) for each in methods_of(document(version))}

    assert ours.keys() <= theirs.keys()
    assert {name: theirs[name] for name in ours} == ours


def shape(method: Mapping[str, Any]) -> tuple[str, str]:
    return method["httpMethod"], method["path"]


def methods_of(resource: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from resource.get("methods", {}).values()
    for below in resource.get("resources", {}).values():
        yield from methods_of(below)
