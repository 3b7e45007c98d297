"""What damage may have taken of the budgets: until the user has looked, nothing is asked for that costs money.

Noted in the journal that took the place of the damaged one, for all projects; each is confirmed by itself. Every method
may block on the disk.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from jupyter_tpu.errors import JournalUnwritable
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.documents import Documents
from jupyter_tpu.journal.journal import Journal
from jupyter_tpu.journal.mending import DAMAGE, DAMAGE_REASON, EVERYWHERE, LOSS

_SEEN = "loss_seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One damage.

    Attributes:
        copy: where the damaged file is kept.
        at: when it was found, in Unix seconds.
    """

    copy: str
    at: float

    def error(self) -> JournalUnwritable:
        """Why nothing may be asked for."""
        found = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.at))
        return JournalUnwritable(
            f"The journal was found damaged on {found}, and not all of it could be read: budgets, or what was spent of "
            "them, may be lost.",
            exists=f"The damaged file is kept as {self.copy}. Until you confirm, nothing is asked of the cloud that "
            "costs money.",
            hint="Look at the budgets with `jupyter tpu budget`, set those that are missing, and say that they are "
            "right with `jupyter tpu budget confirm`. Setting one says so as well.",
        )


class Losses:
    """Those of a project in a cloud."""

    def __init__(self, journal: Journal, *, endpoint: str, project: str) -> None:
        self._everywhere = Documents(journal, endpoint=EVERYWHERE, project=EVERYWHERE)
        self._seen = Documents(journal, endpoint=endpoint, project=project)
        self._audit = Audit(journal, endpoint=endpoint, project=project)

    def open(self) -> tuple[Loss, ...]:
        """Those that the user has not confirmed, oldest first; raises `JournalUnwritable`."""
        lost = self._everywhere.all(LOSS)
        seen = {each.name for each in self._seen.all(_SEEN)} if lost else set[str]()
        return tuple(Loss(copy=each.name, at=each.updated_at) for each in lost if each.name not in seen)

    def note(self) -> None:
        """See to it that the audit log of the project has them; raises `JournalUnwritable`."""
        for loss in self.open():
            self._audit.note_once(Entry(at=loss.at, action=DAMAGE, subject=loss.copy, reason=DAMAGE_REASON))

    def confirm(self, *, now: float) -> bool:
        """The user has looked at the budgets; whether there was anything to confirm.

        Raises:
            JournalUnwritable: it is not written down.
        """
        losses = self.open()
        for loss in losses:
            reason = "The user confirmed the budgets after the journal was damaged."
            self._audit.note_once(Entry(at=now, action="budget", subject=loss.copy, reason=reason))
            self._seen.put(_SEEN, loss.copy, {}, now=now)
        return bool(losses)
