"""SkyPilot's own provisioner of TPU VMs against the emulated cloud; ``make conformance`` brings it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

RUN = Path(__file__).with_name("skypilot_run.py")
QUOTA = "TPUV5sLitepodPerProjectPerZoneForTPUAPI"


@pytest.mark.timeout(600)
@pytest.mark.optional("skypilot")
def test_skypilot_provisions_queues_and_reads_refusals(emulator: Any, tmp_path: Path) -> None:
    emulator.control.set_quota(QUOTA, emulator.zone, 4)
    environment = {**os.environ, "HOME": str(tmp_path), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    command = [os.environ["JUPYTER_TPU_SKYPILOT"], str(RUN), emulator.rest, emulator.project, emulator.zone]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["plain"] == [None, 1, ["sky"], "default"]
    assert seen["states"] == ["READY"]
    assert seen["queued"] is None
    assert [each["message"] for each in seen["quota"]] == [
        f"Quota '{QUOTA}' exhausted. Limit 4 in zone {emulator.zone}"
    ]
