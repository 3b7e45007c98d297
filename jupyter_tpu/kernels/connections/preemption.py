"""Add auto-recovery's next step to errors about a node that is gone or not READY.

Users of the node's kernels see these errors. The journal is imported only where it is read, so that a kernel on an
existing node doesn't wait for the import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_tpu.errors import NodeNotFound, TpuError
from jupyter_tpu.models import NodeName

if TYPE_CHECKING:
    from jupyter_tpu.lifecycle.recovery_state import Recovery


def recovery_setting(endpoint: str, name: NodeName) -> Recovery | None:
    """Return the node's auto-recovery setting, or None if there is no setting or the journal is unreadable.

    Blocks on the disk.
    """
    from jupyter_tpu.journal.journal import FILE_NAME, Journal
    from jupyter_tpu.journal.paths import journal_dir
    from jupyter_tpu.journal.recovery_store import Recoveries

    try:
        folder = journal_dir(endpoint)
        if not (folder / FILE_NAME).exists():
            return None
        journal = Journal.open(folder)
        try:
            return Recoveries(journal, endpoint=endpoint, project=name.project).get(name)
        finally:
            journal.close()
    except TpuError:  # the caller reports its own error, which is more important
        return None


def with_outlook(error: TpuError, endpoint: str, name: NodeName, *, is_preempted: bool) -> TpuError:
    """Add auto-recovery's next step to the error for a node that is gone or not READY, if auto-recovery is on.

    Args:
        is_preempted: whether the cloud reports that it pre-empted the node; if not, only a recovery in progress is
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
