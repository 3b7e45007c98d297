"""The data of one node's auto-recovery: the user's setting, the progress of a re-creation, and its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jupyter_tpu.errors import Text
from jupyter_tpu.lifecycle import intent_texts
from jupyter_tpu.lifecycle.actions import CreateNode, DeleteNode
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.models import Node, NodeName, NodeSpec, QueuedName, QueuedResource
from jupyter_tpu.provisioning import can_be_preempted, flags_of

Phase = Literal["off", "watching", "clearing", "waiting", "making", "given_up"]

ATTEMPT_LABEL = "jupyter-tpu-attempt"
"""Label of a recreated node; by its value, the intent of the attempt is found in the journal."""

# default number of attempts: a loop of pre-emptions must end even if the user is away
DEFAULT_ATTEMPTS = 3

# our labels contain the intent that created a node, so the next node must not inherit them
_OUR_LABELS = "jupyter-tpu-"
_TAKEN = frozenset({"PREEMPTED", "TERMINATED", "SUSPENDED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The auto-recovery setting of one node, and the progress of a re-creation.

    Attributes:
        choice_id: distinguishes attempts under this setting from attempts under earlier settings.
        spec: the node to recreate.
        max_attempts: the maximum number of attempts after each loss, including failed ones; also how many recreated
            nodes in a row may be lost soon.
        max_usd: the cap on the node's cost since the setting was made, in US dollars; recovery gives up when the cost
            reaches the cap. None for no cap.
        message: one sentence for display about the phase.
        uid: the uid of the node that is being watched, or of the leftover that is being deleted.
        was_ready: whether that node was ever READY. If not, it is not recreated.
        is_queued: whether a queued resource created that node and must be deleted with it.
        attempts: the number of attempts that were started since the setting was made.
        earlier_attempts: how many of them were for earlier losses.
        short_runs: the number of recreated nodes in a row that were lost soon.
        retry_at: the earliest start of the next attempt (Unix seconds).
        asked_at: when deletion of the leftover was last requested (Unix seconds); 0 for never.
        chosen_at, since: when the setting was made, and when the phase began (Unix seconds, local clock).
        chosen_at_of_cloud: when the setting was made (Unix seconds by the cloud's clock, as costs are); None if
            unknown.
        owner: the process that currently owns the setting, see `jupyter_tpu.journal.owner`; empty if no process does.
    """

    choice_id: str
    spec: NodeSpec
    is_on: bool = True
    max_attempts: int = DEFAULT_ATTEMPTS
    max_usd: float | None = None
    phase: Phase = "watching"
    message: str = ""
    uid: str = ""
    was_ready: bool = False
    is_queued: bool = False
    attempts: int = 0
    earlier_attempts: int = 0
    short_runs: int = 0
    retry_at: float = 0.0
    asked_at: float = 0.0
    chosen_at: float = 0.0
    chosen_at_of_cloud: float | None = None
    since: float = 0.0
    owner: str = ""

    @property
    def name(self) -> NodeName:
        """Return the node's name. A recreated node has the same name."""
        return self.spec.name

    @property
    def attempt_number(self) -> int:
        """Return the number of attempts that were started since the node was last lost."""
        return self.attempts - self.earlier_attempts

    @property
    def attempt(self) -> str:
        """Return the value of `ATTEMPT_LABEL` for the latest attempt, which is unique."""
        return f"{self.choice_id}-{self.attempts}"

    @property
    def attempt_text(self) -> str:
        """Return a text about the latest attempt, such as ``attempt 2 of 3``."""
        return Text("attempt {attempt} of {most}", attempt=self.attempt_number, most=self.max_attempts)

    @property
    def is_being_recreated(self) -> bool:
        """Whether the node was lost and is being recreated."""
        return self.is_on and self.phase in ("clearing", "waiting", "making")

    def to_json(self) -> dict[str, Any]:
        """Return all fields; `from_json` is the inverse."""
        return {
            "choice_id": self.choice_id,
            "spec": self.spec.to_json(),
            "is_on": self.is_on,
            "max_attempts": self.max_attempts,
            "max_usd": self.max_usd,
            "phase": self.phase,
            "message": self.message,
            "uid": self.uid,
            "was_ready": self.was_ready,
            "is_queued": self.is_queued,
            "attempts": self.attempts,
            "earlier_attempts": self.earlier_attempts,
            "short_runs": self.short_runs,
            "retry_at": self.retry_at,
            "asked_at": self.asked_at,
            "chosen_at": self.chosen_at,
            "chosen_at_of_cloud": self.chosen_at_of_cloud,
            "since": self.since,
            "owner": self.owner,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Recovery:
        """Parse the output of `to_json`; raises KeyError, TypeError or ValueError if it is invalid."""
        return cls(**{**data, "spec": NodeSpec.from_json(data["spec"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """An observation of the node in the cloud and the journal.

    Attributes:
        at: when this was observed (Unix seconds).
        node: the node as read from the cloud; None if it doesn't exist.
        missing_s: the number of seconds for which the node has been missing.
        is_witnessed: whether this process saw the node shortly before it disappeared.
        was_deleted: whether the cloud lists a delete operation for the node that disappeared.
        queued: the queued resource that created the node; None if it doesn't exist.
        deletion: an intent, created since the setting was made, to delete the node; None if there is none.
        stop: an intent, created since the setting was made, to stop the node; None if there is none.
        making: the intent of the latest attempt to recreate the node; None if there is none.
        spent_usd: the node's cost since the setting was made, in US dollars; None if unknown.
    """

    at: float
    node: Node | None = None
    missing_s: float = 0.0
    is_witnessed: bool = True
    was_deleted: bool = False
    queued: QueuedResource | None = None
    deletion: Intent | None = None
    stop: Intent | None = None
    making: Intent | None = None
    spent_usd: float | None = 0.0


@dataclass(frozen=True, slots=True)
class DeleteQueued:
    """A request to delete a queued resource whose node is gone."""

    name: QueuedName


@dataclass(frozen=True, slots=True)
class CancelAttempt:
    """A request to cancel an attempt to recreate a node: its intent, and the node if it already exists."""

    name: NodeName


Step = tuple[Recovery, DeleteNode | DeleteQueued | CreateNode | CancelAttempt | None]
"""The recovery to save, and the request to send afterwards."""


def spec_of(node: Node) -> NodeSpec:
    """Return the spec that recreates this node."""
    labels = {key: value for key, value in node.labels.items() if not key.startswith(_OUR_LABELS)}
    return NodeSpec(
        name=node.name,
        accelerator_type=node.accelerator_type,
        runtime_version=node.runtime_version,
        **flags_of(node.provisioning),
        options=node.options,
        labels=labels,
        metadata=dict(node.metadata),
    )


def is_preemptible(node: Node) -> bool:
    """Return whether the cloud may pre-empt the node."""
    return node.spot or node.preemptible


def is_lost(node: Node) -> bool:
    """Return whether the node was pre-empted and can only be deleted. A stopped on-demand node can be started again."""
    return node.state in _TAKEN or (is_preemptible(node) and node.state == "STOPPED")


def watching_text(recovery: Recovery) -> str:
    """Return the message for the phase ``watching``, which describes what happens after a pre-emption."""
    cap = "" if recovery.max_usd is None else Text(", until it has cost ${cap}", cap=f"{recovery.max_usd:,.2f}")
    node, tries = recovery.name.node_id, _tries(recovery.max_attempts)
    if can_be_preempted(recovery.spec.provisioning):
        return Text("{node} is recreated after a pre-emption, with {tries}{cap}.", node=node, tries=tries, cap=cap)
    return Text(
        "{node} is not a spot node, so no pre-emption is expected. If it is pre-empted, it is recreated, with"
        " {tries}{cap}.",
        node=node,
        tries=tries,
        cap=cap,
    )


def _tries(count: int) -> str:
    return Text("one attempt each time") if count == 1 else Text("at most {count} attempts each time", count=count)


def outlook(recovery: Recovery) -> str:
    """Return a message about auto-recovery's next step, for the user of a kernel that was lost with its node."""
    if recovery.is_being_recreated:
        # before the phase `making`, the next attempt is not counted yet
        attempt = recovery.attempt_number if recovery.phase == "making" else recovery.attempt_number + 1
        return Text(
            "The node was pre-empted and is being recreated (attempt {attempt} of {most}). When it is READY, "
            "the kernels of open notebooks are restarted there.",
            attempt=attempt,
            most=recovery.max_attempts,
        )
    if recovery.phase == "watching" and recovery.is_on:
        return Text(
            "Auto-recovery recreates the node. When it is READY, the kernels of open notebooks are restarted there."
        )
    command = intent_texts.command("recover", recovery.name)
    return Text("{message} See {command}.", message=recovery.message, command=command)
