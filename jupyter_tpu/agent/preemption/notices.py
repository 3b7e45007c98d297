"""Pass termination notices to the kernels' checkpoint hooks, and collect the outcomes.

The watch on the metadata server, the guard and Jupyter servers may all announce the same termination, some of them
repeatedly. A hook must run once per termination, so these announcements are combined into one notice.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.agent.clock import boot_id
from jupyter_tpu.agent.kernels.kernel import Kernel
from jupyter_tpu.agent.kernels.kernels import Kernels
from jupyter_tpu.autostop import number_from
from jupyter_tpu.errors import BadInput, Text

HOOK_S = 25.0
"""Maximum run time of a checkpoint hook, in seconds; a hook has less time if the node stops sooner.

A spot VM is powered off 30 s after its notice (Compute Engine); the other 5 s are for receiving the notice and
reporting the outcome.
"""

BY_RULE, PREEMPTED, MAINTENANCE = "rule", "preempted", "maintenance"
"""The kinds of notices."""

# A notice of the same kind within this time is a repetition; servers repeat notices every few seconds.
_REPEATED_WITHIN_S = 60.0
# Number of outcomes to keep for clients.
_REMEMBERED = 20
# Maximum length of a reason or error in characters. These texts come from clients and hooks.
_LONGEST_TEXT = 500


@dataclass
class Notice:
    """One announced termination of the node.

    Attributes:
        ends: deadline for the hooks, on the monotonic clock.
        repeated: time of the last announcement, on the monotonic clock.
        waiting: ids of kernels whose hooks were notified but haven't reported.
        news: an event that is set when a hook reports its outcome.
    """

    notice_id: str
    reason: str
    ends: float
    repeated: float
    waiting: set[str] = field(default_factory=set)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_open(self) -> bool:
        """Whether hooks are running and have time left."""
        return bool(self.waiting) and time.monotonic() < self.ends


class Notices:
    """The notices that this worker's node will be stopped, pre-empted or maintained.

    Attributes:
        notified: number of hooks notified since the agent started.
    """

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._newest: dict[str, Notice] = {}
        self._outcomes: list[tuple[float, dict[str, Any]]] = []
        self.notified = 0

    def announce(self, kind: str, reason: str, within_s: float = math.inf) -> Notice:
        """Notify the kernels' hooks, unless they were already notified of this termination.

        Args:
            kind: `BY_RULE`, `PREEMPTED` or `MAINTENANCE`.
            reason: reason for the termination, for display.
            within_s: seconds until the node may disappear.
        """
        now = time.monotonic()
        known = self._newest.get(kind)
        # This is a new notice. If the hooks of an earlier notice still have time left, both notices announce the same
        # shutdown.
        if known is None or now - known.repeated > _REPEATED_WITHIN_S:
            known = next((notice for notice in self._newest.values() if now < notice.ends), None)
        notice = self._newest[kind] = known or self._begin(kind, reason, min(HOOK_S, max(0.0, within_s)))
        notice.repeated = now
        return notice

    def _begin(self, kind: str, reason: str, seconds: float) -> Notice:
        now = time.monotonic()
        # The next agent announces a pre-emption again. The same ID prevents hooks from running twice.
        notice_id = f"{kind}-{boot_id()}" if kind == PREEMPTED else uuid.uuid4().hex
        notice = Notice(notice_id=notice_id, reason=reason, ends=now + seconds, repeated=now)
        data = json.dumps({"notice_id": notice_id, "reason": reason, "ends_in_s": seconds}).encode()
        notice.waiting = {kernel.kernel_id for kernel in self._kernels.all() if kernel.notify_hook(data)}
        self.notified += len(notice.waiting)
        if notice.waiting:
            asyncio.get_running_loop().call_later(seconds, self._is_over, notice)
        return notice

    def _is_over(self, notice: Notice) -> None:
        """Record the hooks that didn't finish before the deadline."""
        for kernel in self._kernels.all():
            if kernel.kernel_id in notice.waiting:
                self._note(kernel, notice.notice_id, notice.reason, {"status": "unfinished"})
        notice.news.set()

    def report_end(self, cause: str, detail: str = "") -> None:
        """Record with each kernel that this worker stopped its node, so that clients can show the reason.

        Args:
            cause: as in `jupyter_tpu.node_end`.
            detail: the limit that was reached, for display.
        """
        made_of = {"detail_text": detail.to_json()} if isinstance(detail, Text) else {}
        for kernel in self._kernels.all():
            if not kernel.is_closed:
                kernel.event("node_ending", cause=cause, detail=str(detail), **made_of)

    @staticmethod
    async def wait_for_hooks(notice: Notice) -> bool:
        """Wait for the hooks to finish or time out; return whether any hook was running."""
        if not notice.is_open:
            return False
        while notice.is_open:
            notice.news.clear()
            try:
                await asyncio.wait_for(notice.news.wait(), max(0.0, notice.ends - time.monotonic()))
            except (asyncio.TimeoutError, TimeoutError):
                return True
        return True

    @property
    def are_open(self) -> bool:
        """Whether hooks are running; their chip use must not count as activity."""
        return any(notice.is_open for notice in self._newest.values())

    # -- calls from clients and hooks

    async def prepare_to_end(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Announce that a server will stop or delete the node in ``ends_in_s`` seconds; servers may repeat the call.

        Raises:
            BadInput: a parameter is not valid.
        """
        reason = params.get("reason")
        if not isinstance(reason, str) or not reason:
            raise BadInput("The field 'reason' must be a non-empty string.")
        within_s = math.inf if params.get("ends_in_s") is None else number_from(params, "ends_in_s")
        notice = self.announce(BY_RULE, reason[:_LONGEST_TEXT], within_s)
        return {"is_ready": not notice.is_open, "hooks": self.describe()}

    async def hook_ran(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Record the outcome of a kernel's hook; ``is_repeated`` means that an earlier agent already recorded it.

        Raises:
            BadInput: a parameter is not valid.
            KernelFailed: there is no such kernel.
        """
        kernel = self._kernels.get(params.get("kernel_id"))
        notice_id, status, reason, error = (
            str(params.get(name, ""))[:_LONGEST_TEXT] for name in ("notice_id", "status", "reason", "error")
        )
        if status not in ("ran", "failed"):
            raise BadInput("The field 'status' must be 'ran' or 'failed'.")
        outcome = {"status": status, "seconds": number_from(params, "seconds"), "error": error}
        self._note(kernel, notice_id, reason, outcome, is_repeated=bool(params.get("is_repeated")))
        for notice in self._newest.values():
            if notice.notice_id == notice_id:
                notice.waiting.discard(kernel.kernel_id)
                notice.news.set()
        return {}

    def describe(self) -> list[dict[str, Any]]:
        """Return the outcomes of the newest hooks, with ages instead of times."""
        now = time.monotonic()
        return [{**outcome, "age_s": now - at} for at, outcome in self._outcomes]

    def _note(
        self, kernel: Kernel, notice_id: str, reason: str, outcome: Mapping[str, Any], *, is_repeated: bool = False
    ) -> None:
        """Store the outcome of a checkpoint hook. Add it to the kernel's record unless an earlier agent has done so."""
        told = {**outcome, "reason": reason, "message": _message(outcome, reason)}
        if not is_repeated:
            kernel.event("checkpoint_hook", notice_id=notice_id, **told)
        who = {"kernel_id": kernel.kernel_id, "notebook": kernel.notebook, "notice_id": notice_id}
        self._outcomes = [*self._outcomes, (time.monotonic(), {**who, **told})][-_REMEMBERED:]


def _message(outcome: Mapping[str, Any], reason: str) -> str:
    """Describe a hook's outcome for display."""
    if outcome["status"] == "unfinished":
        return f"checkpoint hook did not finish in time ({reason})"
    if outcome["status"] == "failed":
        return f"checkpoint hook failed after {outcome['seconds']:.1f} s: {outcome['error']} ({reason})"
    return f"checkpoint hook ran in {outcome['seconds']:.1f} s ({reason})"
