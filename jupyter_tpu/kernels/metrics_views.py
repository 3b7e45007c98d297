"""What the agents say of their chips, as ``rest-api.yml`` and ``--json`` show it. Pure.

All of it is checked, since another machine has said it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from jupyter_tpu.errors import AgentBroken, TpuError
from jupyter_tpu.kernels.metrics_links import Answer
from jupyter_tpu.metrics import Holder, Sample, number_or_none

_BY_ID = ("duty_percent", "hbm_used_bytes", "tensorcore_percent")
_OF_HOST = ("cpu_percent", "memory_used_bytes")
_MOST_POINTS = 600
_MOST_SERIES = 64
_LONGEST_TEXT = 500


def metrics_view(answers: Iterable[Answer], accelerator_type: str, as_of: float) -> dict[str, Any]:
    """All workers of a node."""
    workers = [worker_view(answer) for answer in answers]
    return {
        "as_of": as_of,
        "is_complete": all(worker["error"] is None for worker in workers),
        "accelerator_type": accelerator_type,
        "workers": workers,
    }


def worker_view(answer: Answer) -> dict[str, Any]:
    """One worker; an answer that makes no sense is an error."""
    view: dict[str, Any] = {"worker_id": answer.worker_id, "hostname": None, "as_of": None}
    view |= {"sample": None, "history": None}
    error = answer.error
    if answer.said is not None:
        try:
            view |= {"as_of": answer.at, **_said(answer.said)}
        except (TypeError, KeyError, ValueError, AttributeError) as nonsense:
            error = error or _nonsense(answer.worker_id, nonsense)
    return {**view, "error": error.to_json() if error else None}


def _said(said: Mapping[str, Any]) -> dict[str, Any]:
    history = said.get("history")
    return {
        "hostname": str(said["worker"]["hostname"])[:_LONGEST_TEXT],
        "sample": Sample.from_json(said["sample"]).to_json(),
        "history": None if history is None else _history(history),
    }


def _history(said: Mapping[str, Any]) -> dict[str, Any]:
    by_id = {
        name: {str(key)[:20]: _numbers(row) for key, row in list(said[name].items())[:_MOST_SERIES]} for name in _BY_ID
    }
    return {"at": _numbers(said["at"]), **by_id, **{name: _numbers(said[name]) for name in _OF_HOST}}


def _numbers(row: Iterable[Any]) -> list[float | None]:
    return [number_or_none(value) for value in list(row)[:_MOST_POINTS]]


def freed_view(said: Mapping[str, Any]) -> dict[str, Any]:
    """What became of a wish to free chips.

    Raises:
        AgentBroken: the answer makes no sense.
    """
    try:
        return {
            "freed": [asdict(holder) for holder in holders_of(said["freed"])],
            "left": [asdict(holder) for holder in holders_of(said["left"])],
            "message": str(said["message"])[: 4 * _LONGEST_TEXT],
        }
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise _nonsense(0, error) from error


def who_view(said: Mapping[str, Any]) -> dict[str, Any]:
    """Who holds the chips, and how libtpu's lock is. Raises as `freed_view`."""
    try:
        lock = said["lock_file"]
        return {
            "holders": [asdict(holder) for holder in holders_of(said["holders"])],
            "lock_file": {
                "path": str(lock["path"])[:_LONGEST_TEXT],
                "is_held": lock["is_held"] is True,
                "is_there": lock["is_there"] is True,
            },
            "reason": str(said["reason"])[:_LONGEST_TEXT],
        }
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise _nonsense(0, error) from error


def holders_of(said: Iterable[Any]) -> list[Holder]:
    """Raises TypeError, KeyError, ValueError or AttributeError for anything that is no list of holders."""
    return [Holder.from_json(each) for each in said]


def _nonsense(worker_id: int, error: Exception) -> TpuError:
    return AgentBroken(f"The agent on worker {worker_id} answered nonsense.", raw=f"{type(error).__name__}: {error}")
