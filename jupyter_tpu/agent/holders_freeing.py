"""Takes the chips from the processes that hold them, by ending those: politely, then surely, within 5 s."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from jupyter_tpu.agent.holders import Holders
from jupyter_tpu.agent.kernel import Kernel
from jupyter_tpu.agent.process import start_ticks
from jupyter_tpu.errors import BadInput
from jupyter_tpu.metrics import Holder

log = logging.getLogger(__name__)

POLITE_S = 3.0
_SURE_S = 1.0
_LONGEST_NAME = 200


class Freeing:
    """Frees the chips of this worker.

    Args:
        kernel_of: the live kernel whose own process has that pid, or None.
    """

    def __init__(self, holders: Holders, kernel_of: Callable[[int], Kernel | None]) -> None:
        self._holders = holders
        self._kernel_of = kernel_of

    async def free(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """``{"pid"?, "force"?, "by"?}``: end that holder, or all of this user's.

        Another user's is left alone unless `force` is set, and then ended if the system allows it. A kernel keeps its
        record, and its notebook is told that `by` has freed the chips.

        Raises:
            BadInput: the parameters make no sense.
        """
        pid, force, by = _wish(params)
        found = await asyncio.to_thread(self._holders.look)
        chosen = [one for one in found if one.pid == pid or (pid is None and one.is_own_user)]
        refused = [holder for holder in chosen if not (holder.is_own_user or force)]
        failures = await asyncio.gather(*(self._end(holder, by) for holder in chosen if holder not in refused))
        left = await asyncio.to_thread(self._holders.look)
        left_pids = {holder.pid for holder in left}
        freed = [holder for holder in chosen if holder.pid not in left_pids]
        message = _message(pid, found, refused, [why for why in failures if why], freed, left)
        return {"freed": _listed(freed), "left": _listed(left), "message": message}

    async def _end(self, holder: Holder, by: str) -> str:
        """End one; why it could not be signalled, or nothing."""
        try:
            watched = os.pidfd_open(holder.pid)
        except OSError:
            return ""  # it is gone
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
        kernel = self._kernel_of(holder.pid)
        log.info("signal %s to process %s, which holds the chips", number, holder.pid)
        if kernel is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(watched, number)
        elif number == signal.SIGTERM:
            kernel.end_because(f"The chips were freed by {by}: this kernel was ended. Its outputs are kept.")
        else:
            kernel.send_signal(number)


def _wish(params: Mapping[str, Any]) -> tuple[int | None, bool, str]:
    pid, force, by = params.get("pid"), params.get("force", False), params.get("by", "")
    if pid is not None and (type(pid) is not int or pid < 1):
        raise BadInput(f"{str(pid)[:40]!r} is not the number of a process.", exists="Nothing was ended.")
    if type(force) is not bool or not isinstance(by, str):
        raise BadInput("force must be true or false, and by a text.", exists="Nothing was ended.")
    return pid, force, by.strip()[:_LONGEST_NAME] or "somebody with access to this node"


def _message(
    pid: int | None,
    found: Iterable[Holder],
    refused: Iterable[Holder],
    failures: list[str],
    freed: list[Holder],
    left: list[Holder],
) -> str:
    """What the lists do not say by themselves."""
    if pid is not None and pid not in {holder.pid for holder in found}:
        return f"Process {pid} does not hold the chips."
    said = [f"Process {one.pid} belongs to {one.user}: it was left alone." for one in (*refused, *_others(pid, left))]
    stuck = [f"Process {one.pid} has not ended." for one in left if one in found and one.is_own_user and pid is None]
    if not (freed or left):
        return "No process holds the chips."
    return " ".join(dict.fromkeys([*failures, *said, *stuck]))


def _others(pid: int | None, left: Iterable[Holder]) -> list[Holder]:
    return [holder for holder in left if pid is None and not holder.is_own_user]


def _listed(holders: Iterable[Holder]) -> list[dict[str, Any]]:
    return [asdict(holder) for holder in holders]
