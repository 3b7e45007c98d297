"""The state machine of intents: one table per verb, one function to step through it.

``step(intent, event)`` gives the intent as it is now and what to ask of the cloud. The caller must write the intent
down before it asks; so whatever happens to the process, the journal knows of everything that may cost money.
"""

from __future__ import annotations

from collections.abc import Mapping

from jupyter_tpu.lifecycle import create, falling, rising, start
from jupyter_tpu.lifecycle.actions import GetNode, GetOperation, GetWorkerIdentities, Look
from jupyter_tpu.lifecycle.events import Event, Overruled
from jupyter_tpu.lifecycle.intents import Intent, Verb
from jupyter_tpu.lifecycle.limits import Limits
from jupyter_tpu.lifecycle.outcomes import Outcome, Table, cancelled

TABLES: Mapping[Verb, Table] = {
    "create": create.TABLE,
    "delete": falling.DELETE_TABLE,
    "stop": falling.STOP_TABLE,
    "start": start.TABLE,
}

_DEFAULT_LIMITS = Limits()
_UNASKED = frozenset({"requested", "asking"})


class IllegalEvent(Exception):
    """An event that cannot happen in this phase; the intent stays as it was."""


def step(intent: Intent, event: Event, limits: Limits = _DEFAULT_LIMITS) -> Outcome:
    """What becomes of an intent.

    Raises:
        IllegalEvent: the event has no place in the intent's phase.
    """
    if isinstance(event, Overruled) and intent.verb != "delete" and not intent.settled:
        return cancelled(intent, event.at)
    handler = None if intent.settled else TABLES[intent.verb].get((intent.phase, type(event)))
    if handler is None:
        raise IllegalEvent(f"{type(event).__name__} in phase {intent.phase} of {intent.verb}")
    return handler(intent, event, limits)


def looks(intent: Intent) -> tuple[Look, ...]:
    """What to look at in the next poll, in order."""
    if intent.settled or intent.phase in _UNASKED:
        return ()
    if intent.phase == rising.BOOTING:
        return GetNode(intent.node_name), GetWorkerIdentities(intent.node_name)
    if intent.operation:
        return GetOperation(intent.operation), GetNode(intent.node_name)
    return (GetNode(intent.node_name),)
