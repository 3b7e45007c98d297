"""Map the path and verb of an HTTP request to an API method, for each API version.

The rules of v2 come from google-cloud-tpu's own REST transport. v2alpha1 has the same rules and a few more, which only
its discovery document lists. gcloud still uses two methods of v1: those that list locations and types.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote

from google.cloud.tpu_v2.services.tpu.transports import rest_base

from jupyter_tpu.emulator.resources.behaviours import documented, recorded
from jupyter_tpu.emulator.resources.request import V2, V2ALPHA1

V1 = "v1"

_VARIABLE = re.compile(r"\{([\w.]+)=([^}]+)\}")
_LOCATION = "projects/*/locations/*"


@dataclass(frozen=True, slots=True)
class Rule:
    """An HTTP rule. The path's only variable sets the request field `variable`; the body sets the request field `body`.

    `body` is ``*`` if the body is the whole request, and an empty string if the request has no body.
    """

    version: str
    method: str
    verb: str
    path: re.Pattern[str]
    variable: str
    body: str


@dataclass(frozen=True, slots=True)
class Match:
    """A rule that matches a request, and the value of the variable in the rule's path."""

    rule: Rule
    value: str


def match(verb: str, raw_path: str) -> Match | None:
    """Return the rule that matches a percent-encoded path, with the value of its variable, or None."""
    for rule in http_rules():
        # decode only after the match, because a name may contain an encoded slash
        found = rule.path.fullmatch(raw_path) if rule.verb == verb else None
        if found:
            return Match(rule, unquote(found[1]))
    return None


@functools.cache
def http_rules() -> tuple[Rule, ...]:
    """Return all rules of all versions."""
    shared = tuple(_packaged())
    alpha = tuple(replace(rule, version=V2ALPHA1, path=_moved(rule.path, V2ALPHA1)) for rule in shared)
    return (*shared, *alpha, *_only_alpha(), *_old())


def _packaged() -> Iterator[Rule]:
    """Yield the rules from google-cloud-tpu's REST transport."""
    for name, stub in vars(rest_base._BaseTpuRestTransport).items():
        options: list[Mapping[str, str]] = getattr(stub, "_get_http_options", list)()
        for option in options:
            verb = option["method"].upper()
            yield _rule(V2, name.removeprefix("_Base"), verb, option["uri"], option.get("body", ""))


@documented(
    "alpha-methods",
    "v2alpha1 also has methods for reservations and for the maintenance of nodes and queued resources.",
    source="discovery document of tpu v2alpha1, revision 20261001",
)
def _only_alpha() -> Iterator[Rule]:
    node, queued = f"{{name={_LOCATION}/nodes/*}}", f"{{name={_LOCATION}/queuedResources/*}}"
    for method, verb, path, body in (
        ("PerformMaintenance", "POST", f"{node}:performMaintenance", "*"),
        ("SimulateMaintenanceEvent", "POST", f"{node}:simulateMaintenanceEvent", "*"),
        ("PerformMaintenanceQueuedResource", "POST", f"{queued}:performMaintenanceQueuedResource", "*"),
        ("GetMaintenanceInfo", "GET", f"{queued}:getMaintenanceInfo", ""),
        ("ListReservations", "GET", f"{{parent={_LOCATION}}}/reservations", ""),
    ):
        yield _rule(V2ALPHA1, method, verb, f"/{V2ALPHA1}/{path}", body)


@recorded(
    "v1-lists",
    "The lists of locations and accelerator types are also available under v1, without accelerator configurations.",
    source="gcloud 528.0.0 compute tpus locations list, accelerator-types list; discovery document of tpu v1",
)
def _old() -> Iterator[Rule]:
    """Yield the rules of v1.

    gcloud still uses the methods that list locations and types. The methods for old TPU nodes are listed only so that
    the error can contain the method's name.
    """
    node, operation = f"{{name={_LOCATION}/nodes/*}}", f"{{name={_LOCATION}/operations/*}}"
    for method, verb, path in (
        ("ListLocations", "GET", "{name=projects/*}/locations"),
        ("GetLocation", "GET", f"{{name={_LOCATION}}}"),
        ("ListAcceleratorTypes", "GET", f"{{parent={_LOCATION}}}/acceleratorTypes"),
        ("GetAcceleratorType", "GET", f"{{name={_LOCATION}/acceleratorTypes/*}}"),
        ("GetOperation", "GET", operation),
        ("ListOperations", "GET", f"{{name={_LOCATION}}}/operations"),
        ("DeleteOperation", "DELETE", operation),
        ("CancelOperation", "POST", f"{operation}:cancel"),
        # these names have a prefix, so that they never match a v2 handler
        ("v1.ListNodes", "GET", f"{{parent={_LOCATION}}}/nodes"),
        ("v1.CreateNode", "POST", f"{{parent={_LOCATION}}}/nodes"),
        ("v1.GetNode", "GET", node),
        ("v1.DeleteNode", "DELETE", node),
        ("v1.StartNode", "POST", f"{node}:start"),
        ("v1.StopNode", "POST", f"{node}:stop"),
        ("v1.ReimageNode", "POST", f"{node}:reimage"),
        ("v1.ListTensorFlowVersions", "GET", f"{{parent={_LOCATION}}}/tensorflowVersions"),
        ("v1.GetTensorFlowVersion", "GET", f"{{name={_LOCATION}/tensorflowVersions/*}}"),
    ):
        yield _rule(V1, method, verb, f"/{V1}/{path}", "")


def _rule(version: str, method: str, verb: str, uri: str, body: str) -> Rule:
    variable = _VARIABLE.search(uri)
    if variable is None:
        raise ValueError(f"an HTTP rule without a variable: {uri}")
    # exclude the colon, which starts a custom method's verb
    inner = variable[2].replace("*", "[^/:]+")
    path = f"{re.escape(uri[: variable.start()])}({inner}){re.escape(uri[variable.end() :])}"
    return Rule(version, method, verb, re.compile(path), variable[1], body)


def _moved(path: re.Pattern[str], version: str) -> re.Pattern[str]:
    return re.compile(path.pattern.replace(f"/{V2}/", f"/{version}/", 1))
