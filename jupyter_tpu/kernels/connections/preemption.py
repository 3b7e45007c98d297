"""Messages to a kernel's user about a node that was pre-empted, stopped or recreated, and what happens next.

The journal is imported only where it is read: a kernel on a node that exists must not wait for the import.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from jupyter_tpu.errors import NodeNotFound, Text, TpuError
from jupyter_tpu.models import Node, NodeName
from jupyter_tpu.provisioning import can_start_again

if TYPE_CHECKING:
    from jupyter_tpu.lifecycle.recovery_state import Recovery


def recovery_setting(endpoint: str, name: NodeName) -> Recovery | None:
    """Return the node's auto-recovery setting from the journal; None if there is none, or the journal is unreadable.

    Blocks on the disk.
    """
    from jupyter_tpu.journal.journal import FILE_NAME, Journal
    from jupyter_tpu.journal.paths import data_dir
    from jupyter_tpu.journal.recovery_store import Recoveries

    try:
        folder = data_dir()
        if not (folder / FILE_NAME).exists():
            return None
        journal = Journal.open(folder)
        try:
            return Recoveries(journal, endpoint=endpoint, project=name.project).get(name)
        finally:
            journal.close()
    except TpuError:  # the caller has an error to show, which matters more than this addition to it
        return None


def with_outlook(error: TpuError, endpoint: str, name: NodeName, *, is_preempted: bool) -> TpuError:
    """Return the error that a node is gone or not READY, with what auto-recovery does about it, if it is set.

    Args:
        is_preempted: whether the cloud says that it pre-empted the node; if not, only a recovery in progress is
        mentioned.
    """
    from jupyter_tpu.lifecycle.recovery_state import outlook

    choice = recovery_setting(endpoint, name)
    if choice is None or not _adds_to(choice, error, is_preempted):
        return error
    return type(error)(error.message, exists=choice.message, hint=outlook(choice), raw=error.raw)


def _adds_to(choice: Recovery, error: TpuError, is_taken: bool) -> bool:
    if choice.is_being_recreated:
        return True
    if choice.phase == "given_up":
        return is_taken or isinstance(error, NodeNotFound)
    return is_taken and choice.is_on


def recreated_message(endpoint: str, name: NodeName) -> str:
    """Return one sentence about a node that was replaced by another one of its name."""
    choice = recovery_setting(endpoint, name)
    if choice is None or not choice.attempts:
        return Text("The node {node} was deleted and recreated.", node=name.node_id)
    return Text(
        "The node {node} was pre-empted and recreated, {attempt}.", node=name.node_id, attempt=choice.attempt_text
    )


def end_reason(endpoint: str, name: NodeName) -> str:
    """Return why a rule of ours, such as a budget, stopped or deleted the node; empty if none did.

    Blocks on the disk.
    """
    from jupyter_tpu.journal.audit import Audit
    from jupyter_tpu.journal.journal import FILE_NAME, Journal
    from jupyter_tpu.journal.paths import data_dir

    try:
        folder = data_dir()
        if not (folder / FILE_NAME).exists():
            return ""
        with closing(Journal.open(folder)) as journal:
            intents = journal.intents_about(name, endpoint=endpoint, since=0.0)
            entries = Audit(journal, endpoint=endpoint, project=name.project).newest()
    except TpuError:  # the caller has an error to show, which matters more than this addition to it
        return ""
    if not intents or intents[0].verb not in ("stop", "delete"):
        return ""
    # the user's own requests have no entry
    return next((entry.reason for entry in entries if entry.detail.get("intent_id") == intents[0].intent_id), "")


def deleted_message(name: NodeName, why: str) -> str:
    """Return what happened to a kernel whose node was deleted, and what the user can do."""
    return (
        f"The node {name.node_id} was deleted with its disk, and its kernel ended with it: {why}\n"
        "Create a new node to run cells again. Outputs are kept."
    )


def stopped_message(node: Node, why: str = "") -> str:
    """Return what happened to a kernel whose node is STOPPING or STOPPED, and what the user can do.

    Args:
        why: one sentence; empty if it is not known.
    """
    again = (
        "Start the node in the TPU panel to run cells again."
        if can_start_again(node.provisioning)
        else f"A {node.provisioning} node can't be started again; create a new one to run cells again."
    )
    end = f": {why}" if why else "."
    return f"The node {node.name.node_id} was stopped, and its kernel ended with it{end}\n{again} Outputs are kept."
