"""Store the auto-stop settings of nodes: rules and “keep running”. Every method may block on disk I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from jupyter_tpu.autostop import (
    DEFAULT_DELETE_RULES,
    DEFAULT_RULES,
    NO_KEEP_RUNNING,
    KeepRunning,
    Reminder,
    Rules,
    reminder,
)
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import BadInput, JournalUnwritable, Text, joined
from jupyter_tpu.fleet.spend.enforcer import can_stop
from jupyter_tpu.fleet.spend.spend_ledger import utc_offset_s
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.ledger import Ledger
from jupyter_tpu.journal.user_documents import Document, Documents
from jupyter_tpu.models import Node
from jupyter_tpu.money.budgets import moment_text
from jupyter_tpu.money.spans import ready_since

DEADLINE_LABEL = "jupyter-tpu-deadline"
"""Label with a deadline in Unix seconds; every server that lists the node enforces the deadline."""

RULES_DAMAGED = (
    "its auto-stop rules in the journal are damaged: until you set them again with `jupyter tpu autostop`, its guard's "
    "rules apply, or the default ones"
)
KEEP_DAMAGED = "its “keep running” setting in the journal is damaged and ignored"

_RULES, _KEEP, _ACT = "brakes", "keep", "human"
# name of the field with the seconds by which the clock was ahead when the setting was dated, see `CloudClock.wrong_s`
_WRONG = "clock_wrong_s"
T = TypeVar("T")
Found = Document | tuple[str, JournalUnwritable]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The stored auto-stop settings of one node.

    Attributes:
        revision, keep_revision: when `rules` and `keep` were last set (Unix seconds); 0 if they were never set.
        acted_at: last user activity recorded by any process on this computer (Unix seconds); None if unknown.
        ready_since: when the node became READY, according to the ledger; None if unknown.
        is_ours: whether this user created the node.
        damage: a text for display: which setting can't be read and what applies instead; empty if all settings can be
            read.
    """

    rules: Rules = field(default_factory=Rules)
    revision: float = 0.0
    keep: KeepRunning = NO_KEEP_RUNNING
    keep_revision: float = 0.0
    acted_at: float | None = None
    ready_since: float | None = None
    is_ours: bool = False
    damage: str = ""


class AutostopSettings:
    """The auto-stop settings of a project in a cloud. `login_key` is the user's public SSH key on the nodes."""

    def __init__(self, journal: Journal, settings: CloudSettings, login_key: str = "") -> None:
        place = {"endpoint": settings.endpoint, "project": settings.project}
        self._journal = journal
        self._login_key = login_key
        self._documents = Documents(journal, **place)
        self._ledger = Ledger(journal, **place)
        self._audit = Audit(journal, **place)
        self._ours: dict[str, bool] = {}

    def read(self, nodes: Iterable[Node], *, clock_wrong_s: float = 0.0) -> dict[str, NodeSettings]:
        """Return each node's settings, by full name; `NodeSettings.damage` reports settings that can't be read.

        Args:
            clock_wrong_s: seconds by which this computer's clock is currently ahead (see `CloudClock.wrong_s`).
                Deadlines and extensions in the result are times on this computer's clock.

        Raises:
            JournalUnwritable: the journal can't be read at all.
        """
        rules, keeps, acts = self._found(_RULES), self._found(_KEEP), self._found(_ACT)
        ready = ready_since(self._ledger.readable_spans())
        return {
            str(node.name): replace(
                self._settings_of(
                    node,
                    rules.get(str(node.name)),
                    keeps.get(str(node.name)),
                    ready.get((node.name, node.uid)),
                    clock_wrong_s,
                ),
                acted_at=_acted_at(acts.get(str(node.name)), node),
            )
            for node in nodes
        }

    def _found(self, kind: str) -> dict[str, Found]:
        each = self._documents.each(kind)
        return {found.name if isinstance(found, Document) else found[0]: found for found in each}

    def _settings_of(
        self, node: Node, rules: Found | None, keep: Found | None, ready_since: float | None, wrong_s: float
    ) -> NodeSettings:
        own, revision, no_rules = _read(rules, lambda document: _rules(document, node, wrong_s), RULES_DAMAGED)
        kept, keep_revision, no_keep = _read(keep, lambda document: _keep(document, node, wrong_s), KEEP_DAMAGED)
        # replace damaged rules with the default even for other people's nodes, because the user had set some
        default = default_rules(node) if no_rules or self._is_ours(node) else Rules()
        return NodeSettings(
            rules=_with_label(own or default, node, wrong_s),
            revision=revision,
            keep=kept or NO_KEEP_RUNNING,
            keep_revision=keep_revision,
            # a session lasts only while the node is READY
            ready_since=ready_since if node.is_billed else None,
            is_ours=self._is_ours(node),
            damage="; ".join(filter(None, (no_rules, no_keep))),
        )

    def _is_ours(self, node: Node) -> bool:
        """Return whether this user created the node; other people's nodes have no rules until the user sets some.

        The journal records this. If the journal was lost, the label and the login key on the node show it.
        """
        intent_id = node.intent_id
        # cache only a positive result: another process may write the intent later
        if intent_id and not self._ours.get(intent_id):
            self._ours[intent_id] = self._has_our_key(node) or self._journal.find(intent_id) is not None
        return self._ours.get(intent_id, False)

    def _has_our_key(self, node: Node) -> bool:
        return bool(self._login_key) and self._login_key in node.metadata.get("ssh-keys", "")

    def put_rules(
        self, node: Node, rules: Rules, *, now: float, revision: float = 0.0, clock_wrong_s: float = 0.0
    ) -> None:
        """Write the rules, with an entry in the audit log; raises `JournalUnwritable`.

        Args:
            revision: the rules' revision if it must be later than `now`; see `AgentPoller.next_revision`.
        """
        body = {**rules.to_json(), **_about(node, clock_wrong_s)}
        self._documents.put(_RULES, str(node.name), body, now=max(now, revision))
        self.record(Entry(at=now, action="brakes", subject=str(node.name), reason=rules_text(rules)))

    def put_keep(
        self, node: Node, keep: KeepRunning, *, now: float, revision: float = 0.0, clock_wrong_s: float = 0.0
    ) -> None:
        """Write the “keep running” setting, with an entry in the audit log; see `put_rules`."""
        body = {**keep.to_json(), **_about(node, clock_wrong_s)}
        self._documents.put(_KEEP, str(node.name), body, now=max(now, revision))
        detail = keep.to_json()
        reason = (
            Text("The user cancelled “keep running”.")
            if keep.is_none
            else Text("The user chose to keep the node running.")
        )
        self.record(Entry(at=now, action="keep", subject=str(node.name), reason=reason, detail=detail))

    def put_last_use(self, node: Node, acted_at: float) -> None:
        """Write when a person last used the node (Unix seconds); raises `JournalUnwritable`."""
        self._documents.put(_ACT, str(node.name), {"uid": node.uid}, now=acted_at)

    def record(self, entry: Entry) -> None:
        """Add an entry to the audit log; raises `JournalUnwritable`."""
        self._audit.record(entry)


def _about(node: Node, clock_wrong_s: float) -> dict[str, Any]:
    """Return the fields that are stored with every setting: the node's uid and the error of this computer's clock.

    The uid is stored because a deadline must not apply to the next node with this name.
    """
    # add the field only if the clock was wrong: an earlier version treats rules with an unknown field as damaged
    return {"uid": node.uid, **({_WRONG: clock_wrong_s} if clock_wrong_s else {})}


def _clock_moved_s(body: Mapping[str, Any], wrong_s: float) -> float:
    """Return the seconds by which this computer's clock has been set ahead since the setting was made."""
    return wrong_s - float(body.get(_WRONG, 0.0))


def rules_text(rules: Rules) -> str:
    """Return the rules as a sentence for the audit log."""
    idle_s, unattended_s, session_s, at = (
        rules.idle_after_s,
        rules.unattended_after_s,
        rules.session_s,
        rules.deadline_at,
    )
    parts = [
        Text("idle timeout {duration}", duration=duration_text(idle_s)) if idle_s else Text("no idle timeout"),
        Text("unattended after {duration}", duration=duration_text(unattended_s)) if unattended_s else "",
        Text("maximum session length {duration}", duration=duration_text(session_s))
        if session_s
        else Text("no maximum session length"),
        Text("deadline {time}", time=moment_text(at, utc_offset_s(at))) if at else "",
    ]
    rules_set = joined(filter(None, parts), ", ")
    action = Text("stop") if rules.action == "stop" else Text("delete")
    return Text("Auto-stop: {rules}; action: {action}.", rules=rules_set, action=action)


def default_rules(node: Node) -> Rules:
    """Return the default rules of a node that jupyter_tpu created."""
    return DEFAULT_RULES if can_stop(node) else DEFAULT_DELETE_RULES


def _read(found: Found | None, read: Callable[[Document], T | None], damaged: str) -> tuple[T | None, float, str]:
    """Return a document's contents, its revision (or 0) and an error message: `damaged`, or empty if it is readable."""
    if found is None:
        return None, 0.0, ""
    if not isinstance(found, Document):
        return None, 0.0, damaged
    try:
        body = read(found)
    except (BadInput, KeyError, TypeError, ValueError):
        return None, 0.0, damaged
    return body, 0.0 if body is None else found.updated_at, ""


def _rules(document: Document, node: Node, wrong_s: float) -> Rules:
    """Return the rules; a deadline applies only to the node for which it was set, not to a later node of that name."""
    body = {name: value for name, value in document.body.items() if name not in ("uid", _WRONG)}
    if document.body.get("uid") != node.uid:
        body.pop("deadline_at", None)
    rules = Rules.from_json(body)
    if rules.deadline_at is None:
        return rules
    return replace(rules, deadline_at=rules.deadline_at + _clock_moved_s(document.body, wrong_s))


def _keep(document: Document, node: Node, wrong_s: float) -> KeepRunning | None:
    """Return the “keep running” setting, or None if it was set for an earlier node with the same name."""
    body: Mapping[str, Any] = document.body
    if body.get("uid") != node.uid:
        return None
    keep = KeepRunning(until=body["until"], while_busy=body["while_busy"])
    return keep if keep.until is None else replace(keep, until=keep.until + _clock_moved_s(body, wrong_s))


def _acted_at(found: Found | None, node: Node) -> float | None:
    is_read = isinstance(found, Document) and found.body.get("uid") == node.uid
    return found.updated_at if is_read and isinstance(found, Document) else None


def reminder_of(
    settings: NodeSettings, ready_since: float | None, human_at: float | None, now: float
) -> Reminder | None:
    """Return the reminder that the node is billed although nobody uses it, or None if no reminder is due.

    Nodes that others created have no reminder until the user sets rules. Setting rules counts as using the node,
    because a node without a connection can't report its use.
    """
    if not settings.is_ours and not settings.revision:
        return None
    return reminder(ready_since, (human_at, settings.acted_at, settings.revision, settings.keep_revision), now)


def _with_label(rules: Rules, node: Node, wrong_s: float) -> Rules:
    text = node.labels.get(DEADLINE_LABEL, "")
    if not text.isdecimal() or len(text) > 12:  # 12 digits last beyond the year 30000
        return rules
    at = float(text) + wrong_s  # any computer may have written this text, so it has the correct time
    return replace(rules, deadline_at=at if rules.deadline_at is None else min(at, rules.deadline_at))
