"""Log the code executed on a kernel in a local file, because the kernel's record is lost with its node.

The file has one line per execute request, in the order sent. A line starts with the request's state and its number of
outputs; a single write replaces both in place. If the server is killed, each line is therefore either old or new; only
the last line may be incomplete. Runs that were lost with a node are moved to a second file, until the user reruns or
dismisses them, for at most 30 days. That file is kept after the kernel has shut down, so another kernel of the same
notebook can offer the runs too.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from jupyter_tpu.files import write_whole
from jupyter_tpu.journal.paths import data_dir

log = logging.getLogger(__name__)

State = Literal["queued", "running", "ok", "error", "aborted"]

MOST_CODE = 256 * 1024
"""Maximum number of characters of a cell in the log. Longer code is truncated and marked as incomplete."""
MOST_BYTES = 16 * 1024 * 1024
"""Size in bytes above which the older half of the log is dropped."""
KEPT_S = 30 * 86_400.0
"""How long lost runs are offered, in seconds: our choice.

Longer than most holidays, but short enough to bound the folder.
"""

_OVER = frozenset({"ok", "error", "aborted"})
_MOST_OUTPUTS = 10**9 - 1  # nine digits, because a line's header has a fixed length


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRun:
    """The run of one execute_request from a page or program. The file on disk has these field names.

    Attributes:
        cell_id: the notebook's cell; None if the code is not from a cell.
        code: the executed code, at most its first `MOST_CODE` characters.
        is_whole: whether `code` is complete.
        node: the host key alias of the worker that ran the code.
        outputs: the number of output messages received.
    """

    msg_id: str
    cell_id: str | None
    code: str
    is_whole: bool = True
    node: str = ""
    state: State = "queued"
    outputs: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the request has succeeded or failed."""
        return self.state in _OVER

    def to_line(self) -> bytes:
        """Return the request's line in the log; its header has a fixed length."""
        rest = json.dumps({name: value for name, value in asdict(self).items() if name not in ("state", "outputs")})
        return _head(self.state, self.outputs) + rest[1:].encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> LoggedRun:
        """Parse a line written by `to_line`.

        Raises:
            KeyError, TypeError, ValueError: the line is invalid.
        """
        data = json.loads(line)
        return cls(**{**data, "state": data["state"].strip()})


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRuns:
    """The runs that were lost with a kernel's node. The file on disk has these field names.

    Attributes:
        lost_at: when the node was lost (Unix seconds).
        reason: why the node is gone, for display.
        runs: the lost runs, in the order sent.
        has_successor: whether the kernel has been started again on another node.
        notebook: the kernel's notebook, see `ExecutionLog.notebook`.
        end: how the node was stopped or deleted, from `NodeEnd.to_json`; None if an earlier version recorded the loss.
        earlier_at: when all of the runs were lost, if that was with an earlier node than the one of `reason`.
    """

    lost_at: float
    reason: str
    runs: tuple[LoggedRun, ...]
    has_successor: bool = False
    notebook: str = ""
    end: Mapping[str, Any] | None = None
    earlier_at: float | None = None


def _head(state: str, outputs: int) -> bytes:
    """Return the header of a line.

    Its length is the same for all states and numbers of outputs, so that it can be rewritten in place.
    """
    return f'{{"state": "{state:<7}", "outputs": {min(outputs, _MOST_OUTPUTS):9d}, '.encode()


def runs_folder() -> Path:
    """Return the folder of the logs.

    Raises:
        JournalUnwritable: the data folder cannot be created.
    """
    return data_dir() / "runs"


class ExecutionLog:
    """The log of one kernel. Every method accesses the disk. No method raises, because a kernel can run without a log.

    Args:
        folder: the folder of the log files.
        most_bytes: the maximum size of the log, in bytes.

    Attributes:
        ran_on: the host key alias of the newest run's worker, even if that run is lost; empty if there are no runs.
        notebook: path of the kernel's notebook on this machine; empty if it has none.
    """

    def __init__(self, folder: Path, kernel_id: str, *, most_bytes: int = MOST_BYTES) -> None:
        name = quote(kernel_id, safe="")
        self._folder = folder
        self._path = folder / f"{name}.log"
        self._lost_path = folder / f"{name}.lost"
        self._most_bytes = most_bytes
        self._file: Any = None
        self._size = 0
        self._open: dict[str, tuple[int, LoggedRun]] = {}
        self._has_failed = False
        self.ran_on = self.notebook = ""

    def begin(self) -> None:
        """Start an empty log for a new kernel process."""
        if self.offered() is None:  # all lost runs were run again, which the emptied log no longer shows
            self.settle()
        self._guarded(self._rewrite, [])

    def resume(self) -> None:
        """Continue the log of an earlier server."""
        self._guarded(lambda: self._rewrite(_read_runs(self._path)))
        lost = self.lost()
        if lost and lost.runs and not lost.has_successor:
            self.ran_on = self.ran_on or lost.runs[0].node

    def note_successor(self) -> None:
        """Record that the kernel was started again after its node was lost."""
        if lost := self.lost():
            self._guarded(_write_lost, self._lost_path, replace(lost, has_successor=True))

    def add(self, run: LoggedRun) -> None:
        """Log a new request, or do nothing if the request is already open."""
        if self._file and run.msg_id not in self._open:
            short = replace(run, code=run.code[:MOST_CODE], is_whole=run.is_whole and len(run.code) <= MOST_CODE)
            self._guarded(self._append, short)

    def is_open(self, msg_id: str) -> bool:
        """Return whether the request is in the log and has not finished."""
        return msg_id in self._open

    def outputs_of(self, msg_id: str) -> int:
        """Return the number of output messages of an open request."""
        return self._open[msg_id][1].outputs

    def move(self, msg_id: str, state: State | None = None, *, outputs: int = 0) -> None:
        """Change the state of an open request, or add `outputs` to its number of output messages."""
        if self._file and msg_id in self._open:
            place, run = self._open[msg_id]
            run = replace(run, state=state or run.state, outputs=run.outputs + outputs)
            self._open[msg_id] = place, run
            self._guarded(self._write_at, place, _head(run.state, run.outputs))
            if run.is_over:
                del self._open[msg_id]

    def lose(self, reason: str, at: float, end: Mapping[str, Any] | None = None) -> None:
        """Move all runs to the front of the list of lost runs; see `LostRuns` for the arguments."""
        self._guarded(self._lose, reason, at, end)

    def lost(self) -> LostRuns | None:
        """Return this kernel's lost runs that the user has not rerun or dismissed, or None if there are none."""
        return _read_lost(self._lost_path)

    def offered(self) -> LostRuns | None:
        """Return all lost runs of this kernel and of earlier kernels of its notebook, with the newest loss's reason.

        Cells that have succeeded on this kernel since are left out. The result is None if nothing is left.
        """
        losses = [lost for path in self._offered_paths() if (lost := _read_lost(path))]
        if not losses:
            return None
        losses.sort(key=lambda lost: lost.lost_at)
        runs = reduce(_merged, (lost.runs for lost in losses))
        done: set[str | None] = set()
        with suppress(OSError):
            done.update(run.cell_id for run in _read_runs(self._path) if run.cell_id and run.state == "ok")
        left = tuple(run for run in runs if run.cell_id not in done)
        return replace(losses[-1], runs=left) if left else None

    def settle(self) -> None:
        """Delete the lost runs that were offered for a rerun, because the user has rerun or dismissed them."""
        for path in self._offered_paths():
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Stop writing; the files are kept."""
        if self._file:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Remove the log of a kernel that was shut down. Runs that were lost with a node are kept."""
        self.close()
        self._open.clear()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    # -- the file

    def _guarded(self, work: Any, *arguments: Any) -> None:
        try:
            work(*arguments)
        except OSError as error:
            self.close()
            if not self._has_failed:  # log this once per kernel, not for each cell on a full disk
                self._has_failed = True
                log.warning("Executed cells are no longer logged, and cannot be offered for a rerun: %s", error)

    def _append(self, run: LoggedRun) -> None:
        line = run.to_line()
        if self._size + len(line) > self._most_bytes:
            # Shrink to half the limit, so that the file is not rewritten for each further cell.
            self._rewrite(_newest(_read_runs(self._path), self._most_bytes // 2 - len(line)))
        self._write_at(self._size, line)
        self.ran_on = run.node
        if not run.is_over:
            self._open[run.msg_id] = self._size, run
        self._size += len(line)

    def _write_at(self, place: int, data: bytes) -> None:
        self._file.seek(place)
        if self._file.write(data) != len(data):
            raise OSError("the disk is full")

    def _rewrite(self, runs: Iterable[LoggedRun]) -> None:
        """Write `runs` to a new log file that atomically replaces the old one."""
        self.close()
        entries = list(runs)
        lines = [run.to_line() for run in entries]
        _write(self._path, b"".join(lines))
        self._file = self._path.open("r+b", buffering=0)  # unbuffered, so that each write is one system call
        self._size, self._open = 0, {}
        self.ran_on = entries[-1].node if entries else ""
        # Store the positions of open runs, whose headers will be rewritten.
        for run, line in zip(entries, lines, strict=True):
            if not run.is_over:
                self._open[run.msg_id] = self._size, run
            self._size += len(line)

    def _lose(self, reason: str, at: float, end: Mapping[str, Any] | None) -> None:
        runs = _read_runs(self._path)
        earlier = self.lost()
        earlier_at = None
        if not runs:
            waiting = self.offered()
            if waiting is None or (earlier and not earlier.has_successor):  # nothing is lost, or this loss is known
                return
            earlier_at = waiting.earlier_at or waiting.lost_at
        all_runs = _merged(earlier.runs if earlier else (), tuple(runs))
        lost = LostRuns(
            lost_at=at, reason=reason, runs=all_runs, notebook=self.notebook, end=end, earlier_at=earlier_at
        )
        _write_lost(self._lost_path, lost)
        self._rewrite([])

    def _offered_paths(self) -> list[Path]:
        if not self.notebook:
            return [self._lost_path]
        found = ((path, _read_lost(path)) for path in self._folder.glob("*.lost") if path != self._lost_path)
        return [self._lost_path, *(path for path, lost in found if lost and lost.notebook == self.notebook)]


def _merged(earlier: tuple[LoggedRun, ...], later: tuple[LoggedRun, ...]) -> tuple[LoggedRun, ...]:
    """Return all runs in the order in which their cells were first run; of a cell in both lists, only the later run."""
    places = {key: place for place, run in enumerate(later) for key in _keys(run)}
    merged: list[LoggedRun] = []
    count = 0  # of the later runs that are merged
    for run in earlier:
        place = max(places.get(key, -1) for key in _keys(run))
        if place < 0:
            merged.append(run)
        elif place >= count:
            merged += later[count : place + 1]
            count = place + 1
    return (*merged, *later[count:])


def _keys(run: LoggedRun) -> set[str]:
    return {run.msg_id, run.cell_id or run.msg_id}


def _newest(runs: list[LoggedRun], most_bytes: int) -> list[LoggedRun]:
    """Return the newest runs that fit into `most_bytes`."""
    newest: list[LoggedRun] = []
    for run in reversed(runs):
        most_bytes -= len(run.to_line())
        if most_bytes < 0:
            break
        newest.append(run)
    return newest[::-1]


def _read_runs(path: Path) -> list[LoggedRun]:
    """Return the runs in a file; skip damaged lines."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    runs: list[LoggedRun] = []
    for line in lines:
        with suppress(KeyError, TypeError, ValueError, AttributeError, RecursionError):
            runs.append(LoggedRun.from_line(line))
    return runs


def _read_lost(path: Path) -> LostRuns | None:
    """Read the lost runs. Delete the file if they were not rerun or dismissed within `KEPT_S` seconds."""
    try:
        if time.time() - path.stat().st_mtime > KEPT_S:
            path.unlink()
            return None
        data = json.loads(path.read_bytes())
        runs = tuple(LoggedRun(**run) for run in data["runs"])
        return LostRuns(
            lost_at=float(data["lost_at"]),
            reason=str(data["reason"]),
            runs=runs,
            has_successor=bool(data.get("has_successor")),
            notebook=str(data.get("notebook", "")),
            end=data.get("end"),
            earlier_at=data.get("earlier_at"),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        log.warning("%s cannot be used: %s", path, error)
        return None


def _write_lost(path: Path, lost: LostRuns) -> None:
    _write(path, json.dumps(asdict(lost)).encode())


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, content)
