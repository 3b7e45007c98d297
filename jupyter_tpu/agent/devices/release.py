"""Takes the chips from the processes that hold them, by ending those: politely, then surely, within 5 s."""

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
_SURE_S = 1.0
_LONGEST_NAME = 200
_NEVER = -1.0


class ChipRelease:
    """Frees the chips of this worker.

    Args:
        kernel_of: the live kernel whose own process has that pid, or None.
    """

    def __init__(self, holders: Holders, kernel_of: Callable[[int], Kernel | None]) -> None:
        self._holders = holders
        self._kernel_of = kernel_of

    async def free(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """``{"pid"? or "processes"?, "force"?, "by"?}``: end those holders, or all of this user's.

        ``processes`` are ``{"pid", "since"?}`` as ``who`` has told of them, so that nobody ends what has come in their
        place meanwhile. Another user's is left alone unless `force` is set, and then ended if the system allows it. A
        kernel keeps its record, and its notebook is told that `by` has freed the chips.

        Raises:
            BadInput: the parameters make no sense.
        """
        wish = _Wish.read(params)
        found = await asyncio.to_thread(self._holders.look)
        chosen = [one for one in found if wish.means(one)]
        refused = [holder for holder in chosen if not (holder.is_own_user or wish.force)]
        failures = await asyncio.gather(*(self._end(holder, wish.by) for holder in chosen if holder not in refused))
        left = await asyncio.to_thread(self._holders.look)
        left_pids = {holder.pid for holder in left}
        freed = [holder for holder in chosen if holder.pid not in left_pids]
        said = [*filter(None, failures), *_said(wish, chosen, refused, left)]
        message = " ".join(dict.fromkeys(said)) if said or freed or left else "No process uses the chips."
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
        log.info("signal %s to process %s, which uses the chips", number, holder.pid)
        if kernel is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(watched, number)
        elif number == signal.SIGTERM:
            kernel.end_because(f"The chips were freed by {by}: this kernel was ended. Its outputs are kept.")
        else:
            kernel.send_signal(number)


@dataclass(frozen=True)
class _Wish:
    """What is to be ended: by pid, and where that is known since when it uses the chips; None: all of this user's."""

    processes: Mapping[int, float | None] | None
    force: bool
    by: str

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> _Wish:
        listed, pid = params.get("processes"), params.get("pid")
        processes = None if listed is None and pid is None else _processes([{"pid": pid}] if listed is None else listed)
        force, by = params.get("force", False), params.get("by", "")
        if type(force) is not bool or not isinstance(by, str):
            raise BadInput("force must be true or false, and by a text.", exists="Nothing was ended.")
        return cls(processes, force, by.strip()[:_LONGEST_NAME] or "somebody with access to this node")

    def means(self, holder: Holder) -> bool:
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
    raise BadInput(f"{str(listed)[:40]} are not the numbers of processes.", exists="Nothing was ended.")


def _said(wish: _Wish, chosen: list[Holder], refused: list[Holder], left: list[Holder]) -> Iterator[str]:
    """What the lists do not say by themselves."""
    gone = dict(wish.processes or {})
    for holder in chosen:
        gone.pop(holder.pid, None)
    yield from (
        f"Process {pid} does not use the chips{'' if since is None else ' any more'}." for pid, since in gone.items()
    )
    others = [] if wish.processes is not None else [holder for holder in left if not holder.is_own_user]
    yield from (f"Process {one.pid} belongs to {one.user}: it was left alone." for one in (*refused, *others))
    if wish.processes is None:
        yield from (f"Process {one.pid} has not ended." for one in left if one in chosen and one.is_own_user)


def _listed(holders: Iterable[Holder]) -> list[dict[str, Any]]:
    return [asdict(holder) for holder in holders]
