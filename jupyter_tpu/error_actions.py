"""The actions that an error can offer: commands that the front end shows as buttons.

The set of actions is small and fixed. An action is plain data: the id and arguments of a command. It is chosen where
the error is created, and saved with the error. The front end translates the label by command and arguments; `label` is
in English. A terminal shows no actions: there, the error's hint contains a command to paste.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jupyter_tpu.accelerators import find_accelerator, price_on_terms, region_of, zones_for_type
from jupyter_tpu.errors import Action, harmless
from jupyter_tpu.models import NODE_OPTIONS, NodeName, NodeSpec

OPEN_FORM = "tpu:open-form"
SHOW_SECTION = "tpu:show-section"
RAISE_BUDGET = "tpu:raise-budget"
OPEN_CONSOLE = "tpu:open-console"
COPY_COMMAND = "tpu:copy-command"
START_NODE = "tpu:start-node"
STOP_NODE = "tpu:stop-node"
DELETE_NODE = "tpu:delete-node"
REFRESH = "tpu:refresh"

_KEY = frozenset({"zone", "node_id"})
_CHOICE = _KEY | {"accelerator_type", "runtime_version", "provisioning", *NODE_OPTIONS}

ARGUMENTS: Mapping[str, frozenset[str]] = {
    OPEN_FORM: _CHOICE | {"way"},
    SHOW_SECTION: frozenset({"section", "zone"}),
    RAISE_BUDGET: frozenset({"name"}),
    OPEN_CONSOLE: frozenset({"page", "project", "service"}),
    COPY_COMMAND: frozenset({"command_line"}),
    START_NODE: _KEY,
    STOP_NODE: _KEY,
    DELETE_NODE: _KEY,
    REFRESH: frozenset(),
}
"""The arguments of each command. All are required texts, except for a node's options, which are flags."""

_TPU_API = "tpu.googleapis.com"
_LONGEST_ARGUMENT = 1000
_MOST_ACTIONS = 8


def elsewhere(spec: NodeSpec, *, queue: bool = False) -> tuple[Action, ...]:
    """Return actions that create the same node in another zone or, with `queue`, through a queued resource."""
    zones = _other_zones(spec)
    return (
        *((_open_form("now", spec, zones[0], f"Try {zones[0]}"),) if zones else ()),
        *((_open_form("search", spec, spec.name.zone, "Search other zones"),) if zones else ()),
        *((_open_form("queue", spec, spec.name.zone, "Wait in the queue"),) if queue else ()),
    )


def search_elsewhere(spec: NodeSpec) -> tuple[Action, ...]:
    """Return the action that searches other zones for the same node, or no action if no zone offers its type."""
    return tuple(each for each in elsewhere(spec) if each.args["way"] == "search")


def _other_zones(spec: NodeSpec) -> list[str]:
    """Return the other zones that offer the type, sorted by price and then by distance."""
    here = spec.name.zone
    if find_accelerator(spec.accelerator_type) is None:
        return []

    def rank(zone: str) -> tuple[float, bool, bool]:
        price = price_on_terms(spec.accelerator_type, zone, spec.provisioning)
        is_far = zone.partition("-")[0] != here.partition("-")[0]
        return (price.usd_per_hour if price else float("inf"), is_far, region_of(zone) != region_of(here))

    return sorted((zone for zone in zones_for_type(spec.accelerator_type) if zone != here), key=rank)


def _open_form(way: str, spec: NodeSpec, zone: str, label: str) -> Action:
    """Return the action that opens the form for a new node with these values; the form shows the price."""
    kind = find_accelerator(spec.accelerator_type)
    return _action(
        OPEN_FORM,
        label,
        way=way,
        zone=zone,
        node_id=spec.name.node_id,
        accelerator_type=kind.type if kind else spec.accelerator_type,
        runtime_version=spec.runtime_version,
        provisioning=spec.provisioning,
        **spec.options.to_json(),
    )


def recreate_node(spec: NodeSpec, *, is_name_free: bool) -> Action:
    """Return the action that opens the form for a new node with the settings of a node that no longer exists.

    Args:
        is_name_free: whether the new node can have the old node's name; if not, the form suggests another name.
    """
    action = _open_form("now", spec, spec.name.zone, "Recreate node")
    return action if is_name_free else replace(action, args={**action.args, "node_id": ""})


def show_quota(zone: str) -> Action:
    """Return the action that shows the project's quota and its usage; `zone` may be empty."""
    return _action(SHOW_SECTION, "Show quota", section="quota", zone=zone)


def clean_up() -> Action:
    """Return the action that opens the list of resources that are billed or use quota, for the user to delete."""
    return _action(SHOW_SECTION, "Clean up", section="cleanup", zone="")


def show_budgets() -> Action:
    """Return the action that shows spending and budgets."""
    return _action(SHOW_SECTION, "Show budgets", section="spend", zone="")


def show_grants() -> Action:
    """Return the action that shows the grants and credits."""
    return _action(SHOW_SECTION, "Show grants", section="grants", zone="")


def show_queue() -> Action:
    """Return the action that shows searches and queued resources."""
    return _action(SHOW_SECTION, "Show searches and queue", section="capacity", zone="")


def raise_budget(name: str) -> Action:
    """Return the action that opens the form in which the user can raise a budget."""
    return _action(RAISE_BUDGET, "Raise budget…", name=name)


def enable_api(project: str, service: str = _TPU_API) -> Action:
    """Return the action that opens the console's page of an API."""
    return _action(OPEN_CONSOLE, "Enable API", page="api", project=project, service=service)


def link_billing(project: str) -> Action:
    """Return the action that opens the console's page for linking a billing account to the project."""
    return _action(OPEN_CONSOLE, "Link billing account", page="billing", project=project, service="")


def copy_command(command_line: str) -> Action:
    """Return the action that copies a command for a terminal; only for tasks that the panel can't do."""
    return _action(COPY_COMMAND, "Copy command", command_line=command_line)


def start_node(name: NodeName) -> Action:
    """Return the action that starts a node."""
    return _action(START_NODE, "Start node", zone=name.zone, node_id=name.node_id)


def stop_node(name: NodeName) -> Action:
    """Return the action that stops a node, after a confirmation."""
    return _action(STOP_NODE, "Stop node…", zone=name.zone, node_id=name.node_id)


def delete_node(name: NodeName) -> Action:
    """Return the action that deletes a node, after a confirmation."""
    return _action(DELETE_NODE, "Delete node…", zone=name.zone, node_id=name.node_id)


def refresh() -> Action:
    """Return the action that lists the nodes again."""
    return _action(REFRESH, "Refresh list")


def _action(command: str, label: str, **args: str | bool) -> Action:
    """Build an action with cleaned texts, because the name of a project or budget may contain any characters."""
    clean = {name: harmless(value) if isinstance(value, str) else value for name, value in args.items()}
    return Action(command=command, args=clean, label=harmless(label))


def actions_from_json(data: object) -> tuple[Action, ...]:
    """Read the `actions` of an error from the user's own journal.

    An error from an earlier version has none; unknown actions are omitted. Don't use this for errors from a worker: a
    worker must not add buttons to the panel.
    """
    listed = data if isinstance(data, list) else []
    return tuple(_from_json(each) for each in listed[:_MOST_ACTIONS] if _is_valid(each))


def _from_json(data: dict[str, Any]) -> Action:
    return Action(command=data["command"], args=dict(data["args"]), label=data["label"])


def _is_valid(data: object) -> bool:
    if not isinstance(data, dict) or not isinstance(data.get("label"), str):
        return False
    command, args = data.get("command"), data.get("args")
    if not isinstance(command, str) or command not in ARGUMENTS or not isinstance(args, dict):
        return False
    # an earlier version may have had fewer node options
    is_whole = ARGUMENTS[command] - {*NODE_OPTIONS} <= args.keys() <= ARGUMENTS[command]
    return is_whole and all(map(_is_argument, args.values()))


def _is_argument(value: object) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and len(value) <= _LONGEST_ARGUMENT)
