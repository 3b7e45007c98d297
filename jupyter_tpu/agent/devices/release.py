"""Release the TPU by terminating the TPU processes: first with SIGTERM, then with SIGKILL, within 5 s."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from jupyter_tpu.agent.devices.holders import Holders
from jupyter_tpu.agent.kernels.kernel import Kernel
from jupyter_tpu.agent.kernels.process import start_ticks
from jupyter_tpu.errors import BadInput
from jupyter_tpu.metrics import Holder

log = logging.getLogger(__name__)

POLITE_S = 3.0
"""Seconds from SIGTERM to SIGKILL, in which a process can save its data."""
# How long to wait for a process to exit after SIGKILL. Only a process that is stuck in a system call takes longer, and
# it can't be killed.
_SURE_S = 1.0
# Maximum length of the caller's name in characters. The name is shown in a notebook.
_LONGEST_NAME = 200
# A value that equals no `Holder.since`, because that is never negative.
_NEVER = -1.0


class ChipRelease:
    """The agent's RPC method that releases this worker's chips.

    Args:
        kernel_of: returns the kernel whose own process has this pid, or None.
    """

    def __init__(self, holders: Holders, kernel_of: Callable[[int], Kernel | None]) -> None:
        self._holders = holders
        self._kernel_of = kernel_of

    async def release(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Terminate the TPU processes in ``processes``, the TPU process ``pid``, or all TPU processes of this user.

        ``processes`` are ``{"pid", "since"?}`` as returned by ``who``, so that a later process with the same pid isn't
        terminated. Another user's process is terminated only if ``force`` is true and the system allows it. A kernel
        keeps its record, and its notebook shows that ``by`` released the TPU.

        Returns ``{"freed", "left", "message"}``: the processes that have exited, the processes that still use the
        chips, and a text for display.

        Raises:
            BadInput: a parameter is not valid.
        """
        selection = _Selection.read(params)
        found = await asyncio.to_thread(self._holders.scan)
        chosen = [one for one in found if selection.matches(one)]
        refused = [holder for holder in chosen if not (holder.is_own_user or selection.force)]
        ended = [holder for holder in chosen if holder not in refused]
        failures = await asyncio.gather(*(self._end(holder, selection.by) for holder in ended))
        left = await asyncio.to_thread(self._holders.scan)
        left_pids = {holder.pid for holder in left}
        freed = [holder for holder in chosen if holder.pid not in left_pids]
        texts = [*filter(None, failures), *_messages(selection, chosen, refused, left)]
        message = " ".join(dict.fromkeys(texts)) if texts or freed or left else "No process uses the chips."
        return {"freed": _listed(freed), "left": _listed(left), "message": message}

    async def _end(self, holder: Holder, by: str) -> str:
        """Terminate one process; return the reason if it couldn't be signalled, otherwise an empty text."""
        # Unlike a PID, a pidfd can't be reused for another process.
        try:
            watched = os.pidfd_open(holder.pid)
        except OSError:
            return ""  # the process has exited
        try:
            started = start_ticks(holder.pid)
            ended = asyncio.Event()
            asyncio.get_running_loop().add_reader(watched, ended.set)
            for number, patience_s in ((signal.SIGTERM, POLITE_S), (signal.SIGKILL, _SURE_S)):
                self._signal(holder, watched, number, by)
                with suppress(asyncio.TimeoutError, TimeoutError):
                    await asyncio.wait_for(ended.wait(), patience_s)
                if start_ticks(holder.pid) != started:
                    break
        except OSError as error:
            return f"Process {holder.pid} of {holder.user} cannot be ended: {error.strerror}."
        finally:
            asyncio.get_running_loop().remove_reader(watched)
            os.close(watched)
        return ""

    def _signal(self, holder: Holder, watched: int, number: int, by: str) -> None:
        # Shut down a kernel through its record, so that its notebook shows the reason.
        kernel = self._kernel_of(holder.pid)
        log.info("signal %s to process %s, which uses the chips", number, holder.pid)
        if kernel is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(watched, number)
        elif number == signal.SIGTERM:
            kernel.end_because(f"The TPU was released by {by}, which ended this kernel. Its outputs are kept.")
        else:
            kernel.send_signal(number)


@dataclass(frozen=True)
class _Selection:
    """The processes to terminate.

    Attributes:
        processes: by pid, the time when each process began to use the chips, so that a later process with the same pid
            is not terminated; a time of None matches any process. If `processes` itself is None, all of the user's
            processes are terminated.
        force: whether to terminate other users' processes.
        by: who releases the TPU, for display.
    """

    processes: Mapping[int, float | None] | None
    force: bool
    by: str

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> _Selection:
        listed, pid = params.get("processes"), params.get("pid")
        processes = None if listed is None and pid is None else _processes([{"pid": pid}] if listed is None else listed)
        force, by = params.get("force", False), params.get("by", "")
        if type(force) is not bool or not isinstance(by, str):
            raise BadInput(
                "The field 'force' must be true or false, and 'by' a string.", exists="No process was ended."
            )
        return cls(processes, force, by.strip()[:_LONGEST_NAME] or "someone with access to this node")

    def matches(self, holder: Holder) -> bool:
        if self.processes is None:
            return holder.is_own_user
        return self.processes.get(holder.pid, _NEVER) in (None, holder.since)


def _processes(listed: Any) -> dict[int, float | None]:
    try:
        found = {one["pid"]: one.get("since") for one in listed}
        if all(type(pid) is int and pid > 0 for pid in found):
            return found
    except (TypeError, LookupError, AttributeError):
        pass
    raise BadInput(f"{str(listed)[:40]!r} is not a list of process ids.", exists="No process was ended.")


def _messages(selection: _Selection, chosen: list[Holder], refused: list[Holder], left: list[Holder]) -> Iterator[str]:
    """Yield messages about processes that don't use the chips, belong to another user or have not exited."""
    gone = dict(selection.processes or {})
    for holder in chosen:
        gone.pop(holder.pid, None)
    yield from (
        f"Process {pid} does not use the chips{'' if since is None else ' any more'}." for pid, since in gone.items()
    )
    others = [] if selection.processes is not None else [holder for holder in left if not holder.is_own_user]
    yield from (f"Process {one.pid} belongs to {one.user}: it was left alone." for one in (*refused, *others))
    if selection.processes is None:
        yield from (f"Process {one.pid} has not ended." for one in left if one in chosen and one.is_own_user)


def _listed(holders: Iterable[Holder]) -> list[dict[str, Any]]:
    return [asdict(holder) for holder in holders]
