"""All rules of one emulated project: settings, quotas, admission, capacity and reservations."""

from __future__ import annotations

from collections.abc import Callable

from jupyter_tpu.emulator.limits.admission import Admission
from jupyter_tpu.emulator.limits.capacity import Capacity
from jupyter_tpu.emulator.limits.project import Project
from jupyter_tpu.emulator.limits.quota_engine import QuotaEngine
from jupyter_tpu.emulator.limits.reservations import Reservations
from jupyter_tpu.emulator.store.settings import Facts


class Rules:
    """The rules that the emulator checks before it creates anything, such as quotas.

    The control API changes them, and the store saves them.
    """

    def __init__(self, facts: Facts, *, now: Callable[[], float], project_id: str, project_number: str) -> None:
        self.project = Project(facts)
        self.quotas = QuotaEngine(facts, self.project)
        self.capacity = Capacity(facts, now)
        self.reservations = Reservations(facts)
        self.admission = Admission(
            project=self.project, quotas=self.quotas, now=now, project_id=project_id, project_number=project_number
        )

    def clear(self) -> None:
        """Reset the rules to those of a new emulator."""
        for part in (self.project, self.quotas, self.capacity, self.reservations, self.admission):
            part.clear()
