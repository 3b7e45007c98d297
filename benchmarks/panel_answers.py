"""Generate responses for the panel about a large slice, with the structure and size of real ones."""

from __future__ import annotations

import json
import math
import time
from typing import Any

NODE = {"zone": "us-central1-a", "node_id": "large-slice"}
GIB = 2**30
CHIPS = 4
"""Chips per worker; each chip of a v3 has two cores."""


def node_list(workers: int) -> dict[str, Any]:
    """Return a READY node with this number of workers, as `GET /jupyter-tpu/v1/nodes` does."""
    node = {
        **NODE,
        "name": f"projects/demo-project/locations/{NODE['zone']}/nodes/{NODE['node_id']}",
        "project": "demo-project",
        "state": "READY",
        "health": "HEALTHY",
        "health_description": "",
        "accelerator_type": f"v3-{workers * CHIPS * 2}",
        "accelerator": None,
        "runtime_version": "tpu-ubuntu2204-base",
        "spot": False,
        "create_time": "2026-11-01T09:00:00Z",
        "workers": [{"worker_id": number, "ip_address": "", "external_ip": ""} for number in range(workers)],
        "managed": True,
        "billing": True,
        "price": None,
        "cost_usd": None,
        "kernelspec": None,
        "description": "",
    }
    rest: dict[str, Any] = {"unreachable": [], "notices": [], "intents": [], "error": None}
    return {"as_of": time.time(), "nodes": [node], **rest}


def metrics(workers: int, second: int, points: int = 0) -> str:
    """Return the metrics of all workers at one second; each number differs from that of the previous second."""
    now = time.time()
    return json.dumps(
        {
            "as_of": now,
            "is_complete": True,
            "accelerator_type": f"v3-{workers * CHIPS * 2}",
            "workers": [_worker(number, second, now, points) for number in range(workers)],
        }
    )


def _worker(number: int, second: int, now: float, points: int) -> dict[str, Any]:
    return {
        "worker_id": number,
        "hostname": f"t1v-n-0a1b2c3d-w-{number}",
        "as_of": now,
        "error": None,
        "sample": _sample(number, second, now),
        "history": _history(number, now, points) if points else None,
    }


def _sample(number: int, second: int, now: float) -> dict[str, Any]:
    first = number * CHIPS
    holder = {"pid": 4000, "user": "me", "command": "python train.py", "kernel_id": "", "notebook": "", "since": now}
    return {
        "at": now,
        "state": "measured",
        "reason": "",
        "duty_per": "chip",
        "chips": [{"chip": first + chip, "duty_percent": _wave(first + chip, second)} for chip in range(CHIPS)],
        "cores": [_core(2 * first + core, second) for core in range(2 * CHIPS)],
        "unknown": {},
        "host": {
            "cpus": 96,
            "cpu_percent": _wave(number, second),
            "memory_used_bytes": 40 * GIB,
            "memory_total_bytes": 335 * GIB,
            "disk_used_bytes": 30 * GIB,
            "disk_total_bytes": 100 * GIB,
        },
        "holders": [{**holder, "is_own_user": True}],
    }


def _core(core: int, second: int) -> dict[str, Any]:
    return {
        "core": core,
        "chip": core // 2,
        "tensorcore_percent": _wave(core + 1, second),
        "hbm_used_bytes": int(_wave(core + 2, second) * 0.16 * GIB),
        "hbm_total_bytes": 16 * GIB,
        "hbm_bandwidth_percent": _wave(core + 3, second),
        "idle_s": 0.0,
        "queued": second % 7,
    }


def _history(number: int, now: float, points: int) -> dict[str, Any]:
    step = 3600 / points
    chips = range(number * CHIPS, (number + 1) * CHIPS)
    cores = range(2 * number * CHIPS, 2 * (number + 1) * CHIPS)
    columns = {each: [_wave(each, point) for point in range(points)] for each in {*chips, *cores}}
    return {
        "at": [now - 3600 + step * point for point in range(points)],
        "duty_percent": {str(chip): columns[chip] for chip in chips},
        "hbm_used_bytes": {str(core): [int(value * 0.16 * GIB) for value in columns[core]] for core in cores},
        "tensorcore_percent": {str(core): columns[core] for core in cores},
        "cpu_percent": columns[chips[0]],
        "memory_used_bytes": [40 * GIB] * points,
    }


def _wave(number: int, second: int) -> float:
    """Return a number from 5 to 95 that changes over time, with a different phase for each `number`."""
    return round(50 + 45 * math.sin(second / 7 + number), 2)
