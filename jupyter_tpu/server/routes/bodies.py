"""Parse request bodies into records; reject invalid bodies with a clear error.

Pure. Only fields that are named and typed here can reach the cloud.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from jupyter_tpu.accelerators import canonical_type
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.lifecycle.search_state import Candidate
from jupyter_tpu.models import NODE_OPTIONS, NodeOptions, NodeSpec
from jupyter_tpu.provisioning import Provisioning, flags_of, parse_provisioning

_LONGEST_BODY = 16_384  # in bytes; a search with the maximum of 64 candidates takes about 10,000
CANDIDATE_FIELDS = ("zone", "accelerator_type", "runtime_version", "spot", "provisioning", *NODE_OPTIONS)
_FIELDS = ("node_id", *CANDIDATE_FIELDS, "accept_unknown_price")


def node_spec_from_body(body: bytes, project: str) -> NodeSpec:
    """Parse the body of ``POST nodes``.

    Raises:
        BadInput: the body is not the JSON object described in rest-api.yml.
    """
    data = json_object(body, _listed(_FIELDS))
    refuse_unknown_fields(data, _FIELDS)
    node_id = text_field(data, "node_id")
    return candidate_of(data, at_once(provisioning_field(data))).spec(project, node_id)


def candidate_of(data: dict[str, Any], provisioning: Provisioning) -> Candidate:
    """Return the node described by the `CANDIDATE_FIELDS` of a body, with this provisioning model.

    Raises:
        BadInput: a field is missing or invalid.
    """
    return Candidate(
        zone=text_field(data, "zone"),
        accelerator_type=canonical_type(text_field(data, "accelerator_type")),
        runtime_version=text_field(data, "runtime_version"),
        **flags_of(provisioning),
        options=NodeOptions(**{name: flag_field(data, name) for name in NODE_OPTIONS}),
    )


def provisioning_field(data: dict[str, Any]) -> Provisioning:
    """Return the provisioning model in a body, from ``provisioning`` or from ``spot`` alone.

    Raises:
        BadInput: the model is unknown, or the two fields contradict each other.
    """
    named = text_field(data, "provisioning") if data.get("provisioning") is not None else None
    return parse_provisioning(named, spot=flag_field(data, "spot") if "spot" in data else None)


def at_once(provisioning: Provisioning) -> Provisioning:
    """Return the provisioning model if it allows creating a node without waiting in a queue.

    Raises:
        BadInput: the model is flex-start, which the API offers only for queued resources.
    """
    if provisioning == "flex-start":
        raise BadInput(
            "A flex-start node cannot be created immediately.",
            exists="Nothing was sent to the cloud.",
            hint="Create a queued resource with a run duration instead.",
        )
    return provisioning


_FLAGS = {"": None, "false": False, "true": True}


def provisioning_parameters(provisioning: str, spot: str) -> Provisioning:
    """Return the provisioning model in the query parameters ``provisioning`` and ``spot``; both may be empty.

    Raises:
        BadInput: the value of a parameter is unknown, or the two parameters contradict each other.
    """
    if spot not in _FLAGS:
        raise BadInput("The parameter 'spot' must be true or false.", hint="Send true or false.")
    return parse_provisioning(provisioning or None, spot=_FLAGS[spot])


def accepts_unknown_price(body: bytes) -> bool:
    """Return whether the body of ``POST nodes`` accepts an unknown price.

    Raises:
        BadInput: as for `node_spec_from_body`.
    """
    return flag_field(json_object(body, _listed(_FIELDS)), "accept_unknown_price")


def json_object(body: bytes, fields: str) -> dict[str, Any]:
    """Parse a body that must be a JSON object.

    Args:
        fields: the expected fields as text, for the hint in an error.

    Raises:
        BadInput: the body is not an object, or is too long.
    """
    if len(body) > _LONGEST_BODY:
        raise BadInput("The request body is too long.", hint=Text("Send at most {count} bytes.", count=_LONGEST_BODY))
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            "The request body is not JSON.", hint=Text("Send a JSON object with these fields: {fields}.", fields=fields)
        ) from error
    if not isinstance(data, dict):
        raise BadInput(
            "The request body is not a JSON object.",
            hint=Text("Send a JSON object with these fields: {fields}.", fields=fields),
        )
    return data


def refuse_unknown_fields(data: dict[str, Any], fields: tuple[str, ...]) -> None:
    """Reject a body with unknown fields, because they may be misspelled.

    Raises:
        BadInput: the body has unknown fields.
    """
    unknown = sorted(set(data) - set(fields))
    if unknown:
        shown = ", ".join(repr(name[:40]) for name in unknown[:5])
        raise BadInput(
            Text("The request body has unknown fields: {unknown}.", unknown=shown),
            hint=Text("Send only {fields}.", fields=_listed(fields)),
        )


def text_field(data: dict[str, Any], name: str) -> str:
    """Return a required short text.

    Raises:
        BadInput: the field is missing, too long or not plain text.
    """
    value = data.get(name)
    if not isinstance(value, str) or not value:
        raise BadInput(
            Text("The field {field} is missing or is not text.", field=repr(name)),
            hint=Text("Send {field} as a non-empty string.", field=repr(name)),
        )
    if len(value) > 128 or not value.isprintable():  # names in the API have at most 63 characters
        raise BadInput(
            Text("The field {field} is too long or contains control characters.", field=repr(name)),
            hint="Send at most 128 printable characters.",
        )
    return value


def flag_field(data: dict[str, Any], name: str) -> bool:
    """Return an optional boolean, or False if it is missing.

    Raises:
        BadInput: the field is not a boolean.
    """
    value = data.get(name, False)
    if not isinstance(value, bool):
        raise BadInput(
            Text("The field {field} must be true or false.", field=repr(name)),
            hint=Text("Send {field} as true or false.", field=repr(name)),
        )
    return value


def number_field(data: dict[str, Any], name: str) -> float | None:
    """Return an optional finite number above 0, or None if it is missing or null.

    Raises:
        BadInput: the field is not such a number.
    """
    value = data.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
        raise BadInput(
            Text("The field {field} is not a number above 0.", field=repr(name)),
            hint=Text("Send {field} as a number above 0, or omit it.", field=repr(name)),
        )
    return float(value)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names)
