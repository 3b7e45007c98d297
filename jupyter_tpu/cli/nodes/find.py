"""Find a node by name; a short name is enough if it occurs in only one zone."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from jupyter_tpu.cli.terminal import warn
from jupyter_tpu.errors import BadInput, JournalUnwritable, NodeNotFound, Text, TpuError
from jupyter_tpu.i18n import _
from jupyter_tpu.models import Node, NodeList, NodeName
from jupyter_tpu.provisioning import flags_of

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.cloud.settings import CloudSettings

_MOST_NAMES = 20  # keeps an error readable in a project with many nodes


async def find_node(cloud: CloudApi, text: str, zone: str) -> Node:
    """Return the node called `text`: ``my-node`` (with or without `zone`) or its full name.

    Raises:
        NodeNotFound: there is no such node; the error lists the existing nodes.
        BadInput: several zones have a node with that name, or `text` isn't a valid name.
    """
    # a full name includes project and zone
    if "/" in text:
        return await cloud.get_node(NodeName.parse(text))
    if zone:
        return await cloud.get_node(NodeName(project=cloud.settings.project, zone=zone, node_id=text))
    # raises BadInput for an invalid name before any request to the cloud; the zone doesn't matter
    NodeName(project=cloud.settings.project, zone="us-central1-a", node_id=text)
    return _only_match(await cloud.list_nodes(), text)


async def find_node_or_intent(cloud: CloudApi, text: str, zone: str) -> Node:
    """Return the node as in `find_node`, or one that is being created or recreated, so that this can be cancelled."""
    try:
        return await find_node(cloud, text, zone)
    except NodeNotFound as error:
        with suppress(JournalUnwritable):  # if the journal is unreadable, use the cloud's response
            intended = [node for node in _intended(cloud.settings, text) if zone in ("", node.name.zone)]
            if len(intended) == 1:
                return intended[0]
        # without this, the user would believe that the node won't come and cost money
        if request := await _pending_request(cloud, text, zone):
            what, command = request
            hint = Text("Cancel it with `{command}`.", command=command)
            raise NodeNotFound(error.message, exists=what, hint=hint) from None
        raise


async def _pending_request(cloud: CloudApi, node_id: str, zone: str) -> tuple[Text, str] | None:
    """Return a search or a queued resource that may still create this node, and the command that cancels it."""
    from jupyter_tpu.fleet.capacity.search_service import SearchService
    from jupyter_tpu.journal import Journal

    with suppress(TpuError):  # the requests are only listed to complete another error
        with closing(Journal.of_user()) as journal:
            searches = await SearchService(cloud, journal).all()
        for search in searches:
            if search.node_id == node_id and not search.has_ended:
                command = f"jupyter tpu search --cancel {search.search_id}"
                return Text("A search that will create a node with this name is running."), command
        for queued in (await cloud.list_queued_resources(zone or "-")).items:
            if node_id in queued.node_ids and not queued.is_leftover:
                command = f"jupyter tpu queue remove {queued.name.queued_id} --zone {queued.name.zone}"
                return Text("A queued resource that will create a node with this name is waiting."), command
    return None


def _intended(settings: CloudSettings, node_id: str) -> list[Node]:
    """Return the nodes with this id whose creation has started but isn't complete, or that will be recreated."""
    from jupyter_tpu.journal import Journal
    from jupyter_tpu.journal.recovery_store import Recoveries
    from jupyter_tpu.lifecycle.recovery_state import Recovery

    with closing(Journal.of_user()) as journal:
        for notice in journal.notices:
            warn(_(notice))
        listed = journal.listed(time.time(), endpoint=settings.endpoint, project=settings.project)
        recoveries = Recoveries(journal, endpoint=settings.endpoint, project=settings.project).each()
    creating = {intent.spec.name: intent.spec for intent in listed if intent.spec and not intent.settled}
    # a setting that can't be read is not performed, and must not hide the other nodes
    recreated = (each for each in recoveries if isinstance(each, Recovery) and each.is_being_recreated)
    lost = {each.name: each.spec for each in recreated if each.name not in creating}
    return [
        # set only the fields that the prompt and the deletion need
        Node(
            name=spec.name,
            state=state,
            accelerator_type=spec.accelerator_type,
            labels=spec.labels,
            **flags_of(spec.provisioning),
        )
        for state, specs in (("CREATING", creating), ("PREEMPTED", lost))
        for spec in specs.values()
        if spec.name.node_id == node_id
    ]


def _only_match(listed: NodeList, node_id: str) -> Node:
    found = [node for node in listed.nodes if node.name.node_id == node_id]
    if not found:
        raise _not_found(listed, node_id)
    if len(found) > 1:
        zones = ", ".join(node.name.zone for node in found)
        raise BadInput(
            Text("Several nodes are named {node}.", node=node_id),
            exists=Text("They are in {zones}.", zones=zones),
            hint="Choose one with --zone.",
        )
    return found[0]


def _not_found(listed: NodeList, node_id: str) -> NodeNotFound:
    names = [f"{node.name.node_id} ({node.name.zone})" for node in listed.nodes]
    exists = Text("Existing nodes: {names}.", names=_some(names)) if names else Text("The project has no nodes.")
    if listed.unreachable:
        zones = _some(list(listed.unreachable))
        exists = Text("{exists} Zones that did not respond: {zones}.", exists=exists, zones=zones)
    return NodeNotFound(
        Text("There is no node named {node}.", node=node_id), exists=exists, hint="`jupyter tpu list` shows all nodes."
    )


def _some(names: list[str]) -> str:
    left_out = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (_(" and {count} more", count=left_out) if left_out > 0 else "")
