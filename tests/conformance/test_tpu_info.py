"""The unmodified tpu-info sees a worker's chips, who has them, and how busy they are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

RUN = Path(__file__).with_name("tpu_info_run.py")
# type → what tpu-info calls a chip, rows of memory and duty, GiB of each, the chips' device files
EXPECTED = {
    "v3-8": ("v3", 8, 16, [f"/dev/accel{number}" for number in range(4)]),
    "v4-8": ("v4", 4, 32, [f"/dev/accel{number}" for number in range(4)]),
    "v5litepod-8": ("v5e", 8, 16, [f"/dev/vfio/{number}" for number in range(8)]),
    "v6e-8": ("v6e", 8, 32, [f"/dev/vfio/{number}" for number in range(8)]),
}
USE = re.compile(r"\| (\d+) +\| (\d+\.\d+) GiB / (\d+)\.00 GiB \| (\d+\.\d+)% +\|")
OWNER = re.compile(r"\| (/dev/\S+) +\|(?:.*\|)? (\d+) +\|(?: python +\|)?")


@pytest.mark.system("unshare")
@pytest.mark.timeout(600)
def test_tpu_info_shows_chips_memory_duty_and_holder(in_namespaces: list[str], tmp_path: Path) -> None:
    argv = [*in_namespaces, sys.executable, str(RUN), str(tmp_path), *EXPECTED]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=280, check=False)

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert "Libtpu metrics unavailable. Is there a framework using the TPU?" in said["idle"]
    for accelerator_type, (name, rows, gib, files) in EXPECTED.items():
        answer = said[accelerator_type]
        uses = USE.findall(answer["busy"])
        assert f"TPU {name} chip" in answer["busy"]
        expected = [(row, gib) for row in range(rows)]
        assert [(int(device), int(total)) for device, _, total, _ in uses] == expected, answer["busy"]
        assert all(float(used) < gib and float(duty) <= 100 for _, used, _, duty in uses)
        owners = answer["owners"] or ("" if name == "v4" else answer["busy"])
        assert not owners or OWNER.findall(owners) == [(file, answer["pid"]) for file in files]
