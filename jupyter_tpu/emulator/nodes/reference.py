"""The read-only methods: locations, accelerator types and runtime versions, from the catalogue."""

from __future__ import annotations

import re
from typing import Any

from google.cloud.location import locations_pb2
from google.protobuf.message import Message

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.nodes.validation import config_type_of, runtime_versions_in
from jupyter_tpu.emulator.resources import errors, paging
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.resources.names import Location, last_part, location_of, parse_location
from jupyter_tpu.emulator.resources.protos import new

_PROJECT = re.compile(r"projects/[^/]+")
_FILTER = re.compile(r'\s*(type|version)\s*=\s*"?([-a-z0-9.]+)"?\s*')


class Reference:
    """The methods that list types and versions of each zone and return the project's service identity."""

    def __init__(self, project_number: str) -> None:
        self._project_number = project_number

    @documented(
        "service-identity",
        "The API acts as service-<project number>@cloud-tpu.iam.gserviceaccount.com.",
        source="cloud.google.com/tpu/docs (Cloud TPU service agent)",
    )
    def generate_service_identity(self, request: Any) -> Any:
        """Handle ``GenerateServiceIdentity``: return the service account that the API uses."""
        parse_location(request.parent, "parent")
        email = f"service-{self._project_number}@cloud-tpu.iam.gserviceaccount.com"
        return new("GenerateServiceIdentityResponse", identity=new("ServiceIdentity", email=email))

    def list_locations(self, request: Any) -> Message:
        """Handle ``ListLocations``: return the zones of the catalogue."""
        if not _PROJECT.fullmatch(request.name):
            raise errors.bad_field("name", f"{request.name!r} is not of the form projects/*")
        zones = accelerators.zones()
        page, token = paging.page_of(zones, str, request.page_size, request.page_token)
        locations = [_location(request.name, zone) for zone in page]
        return locations_pb2.ListLocationsResponse(locations=locations, next_page_token=token)

    def get_location(self, request: Any) -> Message:
        """Handle ``GetLocation`` for one zone."""
        location = parse_location(request.name, "name")
        return _location(f"projects/{location.project}", location.zone)

    def list_accelerator_types(self, request: Any) -> Any:
        """Handle ``ListAcceleratorTypes``: return one page of the types in a zone."""
        location = parse_location(request.parent, "parent")
        names = _filtered(sorted(accelerators.types_in_zone(location.zone)), request.filter)
        page, token = paging.page_of(names, str, request.page_size, request.page_token)
        types = [_accelerator_type(location, name) for name in page]
        return new("ListAcceleratorTypesResponse", accelerator_types=types, next_page_token=token)

    def get_accelerator_type(self, request: Any) -> Any:
        """Handle ``GetAcceleratorType``; raise NOT_FOUND if the zone does not offer the type."""
        location = location_of(request.name)
        name = last_part(request.name)
        if name not in accelerators.types_in_zone(location.zone):
            raise errors.not_found(request.name)
        return _accelerator_type(location, name)

    def list_runtime_versions(self, request: Any) -> Any:
        """Handle ``ListRuntimeVersions``: return one page of the versions that the zone lists."""
        location = parse_location(request.parent, "parent")
        names = _filtered(list(runtime_versions_in(location.zone)), request.filter)
        page, token = paging.page_of(names, str, request.page_size, request.page_token)
        versions = [_runtime_version(location, name) for name in page]
        return new("ListRuntimeVersionsResponse", runtime_versions=versions, next_page_token=token)

    def get_runtime_version(self, request: Any) -> Any:
        """Handle ``GetRuntimeVersion``; raise NOT_FOUND if the zone does not list the version."""
        location = location_of(request.name)
        if last_part(request.name) not in runtime_versions_in(location.zone):
            raise errors.not_found(request.name)
        return _runtime_version(location, last_part(request.name))


@assumed("list-filter", "Lists of types and versions accept only the filter type=NAME (or version=NAME).")
def _filtered(names: list[str], expression: str) -> list[str]:
    if not expression:
        return names
    match = _FILTER.fullmatch(expression)
    if not match:
        raise errors.bad_field("filter", f"filter {expression[:80]!r} is not supported")
    return [name for name in names if name == match[2]]


def _location(parent: str, zone: str) -> Message:
    return locations_pb2.Location(name=f"{parent}/locations/{zone}", location_id=zone)


def _accelerator_type(location: Location, name: str) -> Any:
    kind = accelerators.accelerator(name)
    config = new("AcceleratorConfig", type_=config_type_of(kind), topology=kind.topology)
    return new("AcceleratorType", name=f"{location}/acceleratorTypes/{name}", type_=name, accelerator_configs=[config])


def _runtime_version(location: Location, name: str) -> Any:
    return new("RuntimeVersion", name=f"{location}/runtimeVersions/{name}", version=name)
