"""Convert the agents' metrics to JSON for the REST API (``rest-api.yml``) and ``--json``.

This module is pure. It validates every value, because the values come from another machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from jupyter_tpu.errors import AgentBroken, Text, TpuError, plain
from jupyter_tpu.kernels.connections.metrics_pool import Answer
from jupyter_tpu.metrics import Holder, Sample, number_or_none

_BY_ID = ("duty_percent", "hbm_used_bytes", "tensorcore_percent")
_OF_HOST = ("cpu_percent", "memory_used_bytes")
# Limits on the data that a hostile worker can make a server send to its pages.
_MOST_POINTS = 600
_MOST_SERIES = 64
_LONGEST_TEXT = 500
# Ignore a smaller difference between the clocks, because a response may take this long on a bad connection.
_WRONG_S = 60.0


def name_kernels_alike(holders: Iterable[dict[str, Any]]) -> None:
    """Give all TPU processes of a kernel, listed from worker 0 on, the same notebook.

    Front ends report the notebook's path in Jupyter only to worker 0. The other workers know its path on the client's
    disk.
    """
    notebooks: dict[str, str] = {}
    for holder in holders:
        if holder["kernel_id"]:
            holder["notebook"] = notebooks.get(holder["kernel_id"]) or holder["notebook"]
            notebooks[holder["kernel_id"]] = holder["notebook"]


def metrics_view(answers: Iterable[Answer], accelerator_type: str, as_of: float) -> dict[str, Any]:
    """Return the metrics of all workers of a node; `as_of` is in Unix seconds."""
    workers = [worker_view(answer) for answer in answers]
    name_kernels_alike(holder for worker in workers if worker["sample"] for holder in worker["sample"]["holders"])
    return {
        "as_of": as_of,
        "is_complete": all(worker["error"] is None for worker in workers),
        "accelerator_type": accelerator_type,
        "workers": workers,
    }


def worker_view(answer: Answer) -> dict[str, Any]:
    """Return the metrics of one worker. If its response is invalid, return an error for the worker instead."""
    view: dict[str, Any] = {"worker_id": answer.worker_id, "hostname": None, "as_of": None}
    view |= {"clock_ahead_s": 0.0, "sample": None, "history": None}
    error = answer.error
    if answer.content is not None:
        try:
            view |= {"as_of": answer.at, **_checked(answer.content, _clock_ahead_s(answer))}
        except (TypeError, KeyError, ValueError, AttributeError) as fault:
            error = error or _invalid_answer(answer.worker_id, fault)
    return {**view, "error": error.to_json() if error else None}


def _clock_ahead_s(answer: Answer) -> float:
    """Return how many seconds the worker's clock is ahead of this machine's clock; 0 if unknown."""
    now = number_or_none((answer.content or {}).get("now"))
    ahead_s = 0.0 if now is None or answer.at is None else now - answer.at
    return ahead_s if abs(ahead_s) >= _WRONG_S else 0.0


def _checked(content: Mapping[str, Any], ahead_s: float) -> dict[str, Any]:
    """Validate a response and return its fields for a view, with all times converted to this machine's clock."""
    history, sample = content.get("history"), Sample.from_json(content["sample"])
    return {
        "hostname": plain(content["worker"]["hostname"], _LONGEST_TEXT),
        "clock_ahead_s": ahead_s,
        "sample": _moved(sample, ahead_s).to_json(),
        "history": None if history is None else _history(history, ahead_s),
    }


def _moved(sample: Sample, ahead_s: float) -> Sample:
    holders = tuple(
        holder if holder.since is None else replace(holder, since=holder.since - ahead_s) for holder in sample.holders
    )
    return replace(sample, at=sample.at - ahead_s, holders=holders)


def _history(content: Mapping[str, Any], ahead_s: float) -> dict[str, Any]:
    by_id = {
        name: {str(key)[:20]: _numbers(row) for key, row in list(content[name].items())[:_MOST_SERIES]}
        for name in _BY_ID
    }
    at = [None if moment is None else moment - ahead_s for moment in _numbers(content["at"])]
    return {"at": at, **by_id, **{name: _numbers(content[name]) for name in _OF_HOST}}


def _numbers(row: Iterable[Any]) -> list[float | None]:
    return [number_or_none(value) for value in list(row)[:_MOST_POINTS]]


def release_view(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of releasing the TPU: the processes that were killed and the processes that remain.

    Raises:
        AgentBroken: the response is invalid.
    """
    try:
        return {
            "freed": [asdict(holder) for holder in holders_of(content["freed"])],
            "left": [asdict(holder) for holder in holders_of(content["left"])],
            "message": plain(content["message"], 4 * _LONGEST_TEXT),
        }
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise _invalid_answer(0, error) from error


def tpu_processes_view(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the TPU processes and the state of libtpu's lock file.

    Raises:
        AgentBroken: the response is invalid.
    """
    try:
        lock = content["lock_file"]  # libtpu's lock file, which a killed process may have left behind
        return {
            "holders": [asdict(holder) for holder in holders_of(content["holders"])],
            "lock_file": {
                "path": plain(lock["path"], _LONGEST_TEXT),
                "is_held": lock["is_held"] is True,
                "is_there": lock["is_there"] is True,
            },
            "reason": plain(content["reason"], _LONGEST_TEXT),
        }
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise _invalid_answer(0, error) from error


def holders_of(processes: Iterable[Any]) -> list[Holder]:
    """Return the TPU processes from an agent's list of processes.

    Raises:
        TypeError, KeyError, ValueError, AttributeError: the value is not a list of processes.
    """
    return [Holder.from_json(each) for each in processes]


def _invalid_answer(worker_id: int, error: Exception) -> TpuError:
    return AgentBroken(
        Text("The agent on worker {worker_id} sent an invalid response.", worker_id=worker_id),
        raw=f"{type(error).__name__}: {error}",
    )
