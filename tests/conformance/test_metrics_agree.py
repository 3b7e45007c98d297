"""All who tell of the emulated chips tell the same: REST API, terminal, panel, widget and the unmodified tpu-info."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from metrics_agree_samples import (
    FIRST,
    THEN,
    Row,
    Words,
    panel_words,
    rows,
    rows_of_sample,
    turns,
    widget_words,
)

from jupyter_tpu.accelerators import accelerator

pytestmark = pytest.mark.nightly

RUN = Path(__file__).with_name("metrics_agree_run.py")
TYPES = ("v3-8", "v4-8", "v5litepod-8", "v6e-8", "v4-16")
USE = re.compile(r"\| (\d+) +\| (\d+\.\d+) GiB / (\d+\.\d+) GiB +\| (\d+\.\d+)% +\|")


def all_rows(accelerator_type: str, turn: int) -> list[list[Row]]:
    return [rows(accelerator_type, turn, worker_id) for worker_id in range(accelerator(accelerator_type).workers)]


def assert_turned(seen: list[Words], first: Words, then: Words) -> None:
    """From the first numbers to the second, by way of one sample at most that was taken in between."""
    told = turns(seen, then)
    assert told[0] == first
    assert told[-1] == then
    assert len(told) <= 3, told


def assert_each_turned(seen: list[Words], first: Words, then: Words) -> None:
    """The same of each worker, for they are sampled apart; before all of them are there, none is looked at."""
    told = [each for each in seen if len(each) == len(then)]
    for part in range(len(then)):
        assert_turned([each[part] for each in told], first[part], then[part])


@pytest.mark.system("unshare", "chromium")
@pytest.mark.timeout(900)
def test_all_who_tell_of_the_chips_agree_within_one_sample(
    in_namespaces: list[str], chromium: str, tmp_path: Path
) -> None:
    argv = [*in_namespaces, sys.executable, str(RUN), str(tmp_path), chromium, *TYPES]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=880, check=False)

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    for kind in TYPES:
        assert_all_agree(kind, seen[kind])


def assert_all_agree(kind: str, seen: dict[str, Any]) -> None:
    first, then = (all_rows(kind, turn) for turn in (FIRST, THEN))
    first_panel, then_panel = (panel_words(kind, turn) for turn in (FIRST, THEN))
    assert_each_turned(seen["rest"], first, then)
    assert_each_turned([each[1:] for each in seen["panel"]], first_panel[1:], then_panel[1:])
    assert then_panel in seen["panel"]
    assert_turned(seen["widget"], *(widget_words(kind, turn) for turn in (FIRST, THEN)))
    assert [rows_of_sample(worker["sample"]) for worker in seen["top"]["workers"]] == then
    assert [[list(row) for row in USE.findall(text)] for text in seen["tpu_info"]] == then, seen["tpu_info"]
