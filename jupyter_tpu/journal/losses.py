"""Block billable requests after the journal was damaged, until the user has checked whether budgets are missing.

The repaired journal has one document per loss, shared by all projects. The user confirms each loss separately for each
project. Every method may block on the disk.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from jupyter_tpu.error_actions import show_budgets
from jupyter_tpu.errors import JournalUnwritable, Text
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.journal import Journal
from jupyter_tpu.journal.repair import DAMAGE, DAMAGE_REASON, EVERYWHERE, LOSS
from jupyter_tpu.journal.user_documents import Documents
from jupyter_tpu.money.budgets import moment_text

_SEEN = "loss_seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A repair after which budgets may be missing.

    Attributes:
        copy: path of the damaged file.
        at: when the damage was found (Unix seconds).
    """

    copy: str
    at: float

    def error(self) -> JournalUnwritable:
        """Return the error that explains why billable requests are blocked."""
        found = moment_text(self.at, time.localtime(self.at).tm_gmtoff)
        return JournalUnwritable(
            Text(
                "On {time}, jupyter_tpu found that the journal was damaged. Only parts of it could be read; "
                "budgets, or records of their usage, may be lost.",
                time=found,
            ),
            exists=Text(
                "The damaged file is kept as {path}. Until you confirm, jupyter_tpu requests nothing that costs money.",
                path=self.copy,
            ),
            hint="Check the budgets with `jupyter tpu budget` and set any missing ones. Then confirm them with "
            "`jupyter tpu budget confirm`; setting a budget also confirms them.",
            actions=(show_budgets(),),
        )


class Losses:
    """The losses (see `Loss`) in the journal, and whether the user has confirmed them for a project."""

    def __init__(self, journal: Journal, *, endpoint: str, project: str) -> None:
        self._everywhere = Documents(journal, endpoint=EVERYWHERE, project=EVERYWHERE)
        self._seen = Documents(journal, endpoint=endpoint, project=project)
        self._audit = Audit(journal, endpoint=endpoint, project=project)

    def open(self) -> tuple[Loss, ...]:
        """Return the losses that the user has not confirmed, oldest first; raises `JournalUnwritable`."""
        lost = self._everywhere.all(LOSS)
        # losses are confirmed per project, because each project has its own budgets
        seen = {each.name for each in self._seen.all(_SEEN)} if lost else set[str]()
        return tuple(Loss(copy=each.name, at=each.updated_at) for each in lost if each.name not in seen)

    def record(self) -> None:
        """Add each unconfirmed loss to the project's audit log once; raises `JournalUnwritable`."""
        for loss in self.open():
            self._audit.record_once(Entry(at=loss.at, action=DAMAGE, subject=loss.copy, reason=DAMAGE_REASON))

    def confirm(self, *, now: float) -> bool:
        """Record that the user has checked the budgets; return whether there was a loss to confirm.

        Raises:
            JournalUnwritable: the confirmation was not saved.
        """
        losses = self.open()
        for loss in losses:
            # write the audit log first: if the process crashes here, the loss remains open
            reason = Text("The user confirmed the budgets after the journal was damaged.")
            self._audit.record_once(Entry(at=now, action="budget", subject=loss.copy, reason=reason))
            self._seen.put(_SEEN, loss.copy, {}, now=now)
        return bool(losses)
