"""Slices of plain processes: one that most tests share, and others for what can't be undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from raw_slice import RawSlice


@pytest.fixture(scope="module")
def shared_slice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawSlice]:
    """Three workers that have run a cell which tells them their number, `w`."""
    running = RawSlice(tmp_path_factory.mktemp("slice"), 3)
    running.start_engines()
    assert not running.run("import os, time; w = int(os.environ.get('TPU_SLICE_WORKER', 0))").error
    yield running
    running.close()


@pytest.fixture
def make_slice(tmp_path) -> Iterator[Callable[..., RawSlice]]:
    """Give a slice of one's own, without engines."""
    made: list[RawSlice] = []

    def make(workers: int, **environ: str) -> RawSlice:
        made.append(RawSlice(tmp_path, workers, environ))
        return made[-1]

    yield make
    for each in made:
        each.close()
