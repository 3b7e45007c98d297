"""What is written of the brakes of nodes: rules and wishes to keep, by the node's full name. Blocks on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from jupyter_tpu.brakes import DEFAULT_RULES, DEFAULT_RULES_OF_DELETION, NO_KEEP, Keep, Reminder, Rules, reminder
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import BadInput, JournalUnwritable
from jupyter_tpu.fleet.spend.enforcer import can_stop
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.documents import Document, Documents
from jupyter_tpu.journal.ledger import Ledger
from jupyter_tpu.models import Node
from jupyter_tpu.money.spans import ready_since

DEADLINE_LABEL = "jupyter-tpu-deadline"
"""A node that carries it ends then (Unix seconds), whichever server sees it."""

RULES_DAMAGED = (
    "its rules in the journal are damaged: until you set them again with `jupyter tpu autostop`, those hold that "
    "its guard goes by, or the default ones"
)
KEEP_DAMAGED = "the wish to keep it is damaged in the journal, and does not hold"

_RULES, _KEEP, _ACT = "brakes", "keep", "human"
T = TypeVar("T")
Found = Document | tuple[str, JournalUnwritable]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What is laid down for one node.

    Attributes:
        revision, keep_revision: when that was; 0 for what nobody has said.
        acted_at: the last human act on the node that any process here has heard of.
        ready_since: since when the node has been READY, as far as this journal knows.
        is_ours: this user had the node made, on this machine.
        damage: what of it cannot be read and what holds instead, for people; empty where all can be.
    """

    rules: Rules = field(default_factory=Rules)
    revision: float = 0.0
    keep: Keep = NO_KEEP
    keep_revision: float = 0.0
    acted_at: float | None = None
    ready_since: float | None = None
    is_ours: bool = False
    damage: str = ""


class AutostopSettings:
    """Of the nodes of a project in a cloud. `login_key` is the user's public key line, as it is put on nodes."""

    def __init__(self, journal: Journal, settings: CloudSettings, login_key: str = "") -> None:
        place = {"endpoint": settings.endpoint, "project": settings.project}
        self._journal = journal
        self._login_key = login_key
        self._documents = Documents(journal, **place)
        self._ledger = Ledger(journal, **place)
        self._audit = Audit(journal, **place)
        self._ours: dict[str, bool] = {}

    def read(self, nodes: Iterable[Node]) -> dict[str, NodeSettings]:
        """Full name → what is laid down; what cannot be read of one node is in its `NodeSettings.damage`.

        Raises:
            JournalUnwritable: the journal cannot be read, so nothing is known of any.
        """
        rules, keeps, acts = self._found(_RULES), self._found(_KEEP), self._found(_ACT)
        ready = ready_since(self._ledger.readable_spans())
        return {
            str(node.name): replace(
                self._laid(
                    node, rules.get(str(node.name)), keeps.get(str(node.name)), ready.get((node.name, node.uid))
                ),
                acted_at=_acted_at(acts.get(str(node.name)), node),
            )
            for node in nodes
        }

    def _found(self, kind: str) -> dict[str, Found]:
        each = self._documents.each(kind)
        return {found.name if isinstance(found, Document) else found[0]: found for found in each}

    def _laid(self, node: Node, rules: Found | None, keep: Found | None, ready_since: float | None) -> NodeSettings:
        said, said_at, no_rules = _read(rules, lambda document: _rules(document, node), RULES_DAMAGED)
        wish, wished_at, no_wish = _read(keep, lambda document: _keep(document, node), KEEP_DAMAGED)
        default = _by_default(node) if no_rules or self._is_ours(node) else Rules()
        return NodeSettings(
            rules=_with_label(said or default, node),
            revision=said_at,
            keep=wish or NO_KEEP,
            keep_revision=wished_at,
            ready_since=ready_since if node.is_billed else None,
            is_ours=self._is_ours(node),
            damage="; ".join(filter(None, (no_rules, no_wish))),
        )

    def _is_ours(self, node: Node) -> bool:
        """Whether this user had it made: what others have made has no rules until somebody says so.

        The journal tells, and the node itself where the journal was lost: by our label and our login key.
        """
        intent_id = node.intent_id
        if intent_id and not self._ours.get(intent_id):
            self._ours[intent_id] = self._has_our_key(node) or self._journal.find(intent_id) is not None
        return self._ours.get(intent_id, False)

    def _has_our_key(self, node: Node) -> bool:
        return bool(self._login_key) and self._login_key in node.metadata.get("ssh-keys", "")

    def put_rules(self, node: Node, rules: Rules, *, now: float) -> None:
        """Raises `JournalUnwritable`: they are as they were."""
        self._documents.put(_RULES, str(node.name), {**rules.to_json(), "uid": node.uid}, now=now)
        self.note(Entry(at=now, action="brakes", subject=str(node.name), reason=rules_text(rules)))

    def put_keep(self, node: Node, keep: Keep, *, now: float) -> None:
        """Raises `JournalUnwritable`: it is as it was."""
        self._documents.put(_KEEP, str(node.name), {**keep.to_json(), "uid": node.uid}, now=now)
        detail = keep.to_json()
        reason = "The user no longer keeps the node." if keep.is_none else "The user wants to keep the node."
        self.note(Entry(at=now, action="keep", subject=str(node.name), reason=reason, detail=detail))

    def put_act(self, node: Node, acted_at: float) -> None:
        """Note when somebody acted on the node; raises `JournalUnwritable`."""
        self._documents.put(_ACT, str(node.name), {"uid": node.uid}, now=acted_at)

    def note(self, entry: Entry) -> None:
        """A line of the audit log; raises `JournalUnwritable`."""
        self._audit.note(entry)


def rules_text(rules: Rules) -> str:
    """``Idle after 3600 s, session 43200 s: stop.``"""
    parts = [
        f"idle after {rules.idle_after_s:g} s" if rules.idle_after_s else "never for being idle",
        *([f"unattended after {rules.unattended_after_s:g} s"] if rules.unattended_after_s else []),
        f"session {rules.session_s:g} s" if rules.session_s else "no end of the session",
        *([f"deadline {rules.deadline_at:.0f}"] if rules.deadline_at else []),
    ]
    return f"The node ends {', '.join(parts)}: {rules.action}."


def _by_default(node: Node) -> Rules:
    return DEFAULT_RULES if can_stop(node) else DEFAULT_RULES_OF_DELETION


def _read(found: Found | None, read: Callable[[Document], T | None], damaged: str) -> tuple[T | None, float, str]:
    """What a document says, when that was laid down, and what is wrong with it; a revision of 0 is older than any."""
    if found is None:
        return None, 0.0, ""
    if not isinstance(found, Document):
        return None, 0.0, damaged
    try:
        said = read(found)
    except (BadInput, KeyError, TypeError):
        return None, 0.0, damaged
    return said, 0.0 if said is None else found.updated_at, ""


def _rules(document: Document, node: Node) -> Rules:
    """A deadline is for the node that it was laid down for, not for the next of its name."""
    body = {name: value for name, value in document.body.items() if name != "uid"}
    if document.body.get("uid") != node.uid:
        body.pop("deadline_at", None)
    return Rules.from_json(body)


def _keep(document: Document, node: Node) -> Keep | None:
    """A wish is for one node as well."""
    body: Mapping[str, Any] = document.body
    return Keep(until=body["until"], while_busy=body["while_busy"]) if body.get("uid") == node.uid else None


def _acted_at(found: Found | None, node: Node) -> float | None:
    is_read = isinstance(found, Document) and found.body.get("uid") == node.uid
    return found.updated_at if is_read and isinstance(found, Document) else None


def reminder_of(laid: NodeSettings, ready_since: float | None, heard_at: float | None, now: float) -> Reminder | None:
    """Whether the user is told that the node is billed though nobody acts; other people's nodes are not their matter.

    What was laid down here is an act as well, also of a node that cannot be asked.
    """
    if not laid.is_ours and not laid.revision:
        return None
    return reminder(ready_since, (heard_at, laid.acted_at, laid.revision, laid.keep_revision), now)


def _with_label(rules: Rules, node: Node) -> Rules:
    text = node.labels.get(DEADLINE_LABEL, "")
    if not text.isdecimal() or len(text) > 12:
        return rules
    at = float(text) if rules.deadline_at is None else min(float(text), rules.deadline_at)
    return replace(rules, deadline_at=at)
