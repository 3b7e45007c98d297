"""The progress of a cell on several workers: when to interrupt workers and when to stop waiting for them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Time limits of a cell, in seconds.

    Attributes:
        grace_s: time for which the other workers may continue after a worker has failed.
        last_wait_s: time in which an interrupted worker must finish.
        hint_s: time after which a cell that runs only on some workers shows that it may be waiting for the other
            workers.
    """

    grace_s: float = 2.0
    last_wait_s: float = 5.0
    hint_s: float = 10.0


class Step(Enum):
    """The next action for workers that are still running a cell."""

    INTERRUPT = "interrupt the workers that still run"
    GIVE_UP = "stop waiting for them"


class Course:
    """The workers that are still running a cell, and when the next action is due (seconds of a monotonic clock)."""

    def __init__(self, workers: Iterable[int], limits: Limits) -> None:
        self.running = set(workers)
        self.failed: dict[int, float] = {}
        self.lost: set[int] = set()
        self.has_given_up = False
        self._limits = limits
        self._failed_at: float | None = None
        self._interrupted_at: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the cell no longer waits for any worker.

        It always waits for worker 0, because the kernel is busy until worker 0 has finished.
        """
        return not self.running or (self.has_given_up and 0 not in self.running)

    @property
    def is_interrupted(self) -> bool:
        """Whether the workers were interrupted, by the user or because a worker has failed."""
        return self._interrupted_at is not None

    @property
    def next_at(self) -> float | None:
        """When the next step (interrupt or give up) is due; None if no step is due."""
        if not self.running or self.has_given_up:
            return None
        if self._interrupted_at is not None:
            return self._interrupted_at + self._limits.last_wait_s
        return None if self._failed_at is None else self._failed_at + self._limits.grace_s

    def end(self, worker: int, now: float, *, failed: bool) -> None:
        """Record that a worker has finished running the cell."""
        if worker not in self.running:
            return
        self.running.discard(worker)
        if failed:
            self.failed[worker] = now
            self._failed_at = now if self._failed_at is None else self._failed_at

    def lose(self, worker: int, now: float) -> None:
        """Record that the process of a worker has exited."""
        self.lost.add(worker)
        self.end(worker, now, failed=True)

    def interrupt(self, now: float) -> None:
        """Record that all workers were interrupted."""
        if self._interrupted_at is None:
            self._interrupted_at = now

    def due(self, now: float) -> Step | None:
        """Return the step that is due, or None; each step is returned only once."""
        at = self.next_at
        if at is None or now < at:
            return None
        if self._interrupted_at is None:
            self._interrupted_at = now
            return Step.INTERRUPT
        self.has_given_up = True
        return Step.GIVE_UP
