"""The emulated chips' numbers, the REST API's, the terminal's and the unmodified tpu-info's are the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.accelerators import accelerator

RUN = Path(__file__).with_name("metrics_agree_run.py")
GIB = 2**30
TYPES = ("v3-8", "v4-8", "v5litepod-8", "v6e-8", "v4-16")
USE = re.compile(r"\| (\d+) +\| (\d+\.\d+) GiB / (\d+)\.00 GiB +\| (\d+\.\d+)% +\|")

Rows = list[tuple[str, str, str]]
"""Of each device: memory in use and in all, in GiB, and duty cycle, as tpu-info writes them."""


def laid_down(accelerator_type: str, metrics: dict[str, Any]) -> Rows:
    kind = accelerator(accelerator_type)
    devices, per_chip = kind.jax_devices // kind.workers, kind.jax_devices // kind.chips
    gib = kind.hbm_gib_total / kind.jax_devices
    used = [gib * metrics["memory_percent"][device] / 100 for device in range(devices)]
    duty = [metrics["duty_percent"][device // per_chip] for device in range(devices)]
    return [row(mine, gib, percent) for mine, percent in zip(used, duty, strict=True)]


def of_sample(worker: dict[str, Any]) -> Rows:
    sample = worker["sample"]
    duty = {chip["chip"]: chip["duty_percent"] for chip in sample["chips"]}
    return [
        row(core["hbm_used_bytes"] / GIB, core["hbm_total_bytes"] / GIB, duty[core["chip"]]) for core in sample["cores"]
    ]


def of_tpu_info(text: str) -> Rows:
    return [(used, total, duty) for _, used, total, duty in USE.findall(text)]


def row(used_gib: float, total_gib: float, duty_percent: float) -> tuple[str, str, str]:
    return f"{used_gib:.2f}", f"{total_gib:.0f}", f"{duty_percent:.2f}"


@pytest.mark.system("unshare")
@pytest.mark.timeout(900)
def test_all_who_tell_of_the_chips_agree(in_namespaces: list[str], tmp_path: Path) -> None:
    argv = [*in_namespaces, sys.executable, str(RUN), str(tmp_path), *TYPES]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=880, check=False)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for accelerator_type in TYPES:
        said = told[accelerator_type]
        wanted = [laid_down(accelerator_type, each) for each in said["laid_down"]]
        assert [of_sample(worker) for worker in said["rest"]["workers"]] == wanted
        assert [of_sample(worker) for worker in said["top"]["workers"]] == wanted
        assert [of_tpu_info(text) for text in said["tpu_info"]] == wanted, said["tpu_info"]
    duty_per = {name: told[name]["rest"]["workers"][0]["sample"]["duty_per"] for name in TYPES}
    assert duty_per == {name: "chip" if name == "v3-8" else "core" for name in TYPES}
    second = told["v4-16"]["rest"]["workers"][1]["sample"]
    assert [core["core"] for core in second["cores"]] == [4, 5, 6, 7]
