"""The state machine of intents: one table per verb, and the function `step`, which applies one event.

``step(intent, event)`` returns the intent's next state and the requests to send. The caller writes the intent to the
journal before it sends the requests, so the journal lists everything that may cost money, even if the process dies.
"""

from __future__ import annotations

from collections.abc import Mapping

from jupyter_tpu.lifecycle import create, start, to_ready, to_stopped
from jupyter_tpu.lifecycle.actions import GetNode, GetOperation, GetWorkerIdentities, Query
from jupyter_tpu.lifecycle.intent_events import Event, Overruled
from jupyter_tpu.lifecycle.intents import Intent, Verb
from jupyter_tpu.lifecycle.outcomes import Outcome, Table, cancelled
from jupyter_tpu.lifecycle.time_limits import Limits

TABLES: Mapping[Verb, Table] = {
    "create": create.TABLE,
    "delete": to_stopped.DELETE_TABLE,
    "stop": to_stopped.STOP_TABLE,
    "start": start.TABLE,
}

_DEFAULT_LIMITS = Limits()
_UNASKED = frozenset({"requested", "asking"})


class IllegalEvent(Exception):
    """An event that cannot happen in this phase. The intent is not changed."""


def step(intent: Intent, event: Event, limits: Limits = _DEFAULT_LIMITS) -> Outcome:
    """Return the intent after an event, and the requests to send.

    Raises:
        IllegalEvent: the event cannot happen in the intent's phase.
    """
    # do this in any phase: a newer deletion or stop must not wait for a response
    if isinstance(event, Overruled) and intent.verb != "delete" and not intent.settled:
        return cancelled(intent, event.at)
    handler = None if intent.settled else TABLES[intent.verb].get((intent.phase, type(event)))
    if handler is None:
        raise IllegalEvent(f"{type(event).__name__} in phase {intent.phase} of {intent.verb}")
    return handler(intent, event, limits)


def queries(intent: Intent) -> tuple[Query, ...]:
    """Return the queries for the next poll, in order."""
    if intent.settled or intent.phase in _UNASKED:
        return ()
    if intent.phase == to_ready.BOOTING:
        return GetNode(intent.node_name), GetWorkerIdentities(intent.node_name)
    if intent.operation:
        # query the operation first: if it has failed, the node is expected to be missing
        return GetOperation(intent.operation), GetNode(intent.node_name)
    return (GetNode(intent.node_name),)
