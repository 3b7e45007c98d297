"""libtpu's SDK is asked in a process of its own, whatever it does there."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_tpu.agent.metrics.sdk import MISSING, Sdk

ANSWER = """
import os
class _Metric:
    def data(self):
        assert os.environ["TPU_SKIP_MDS_QUERY"] == "1"
        {body}
class tpumonitoring:
    @staticmethod
    def get_metric(name):
        assert name == "tensorcore_util"
        return _Metric()
"""
PATIENCE_S = 60

MakeSdk = Callable[[str], Sdk]


@pytest.fixture
def make_sdk(tmp_path: Path) -> Iterator[MakeSdk]:
    """An SDK whose libtpu, a package of its own, answers as the given lines of Python do."""
    made: list[Sdk] = []

    def make(body: str) -> Sdk:
        (tmp_path / "libtpu").mkdir()
        (tmp_path / "libtpu" / "__init__.py").write_text("")
        (tmp_path / "libtpu" / "sdk.py").write_text(ANSWER.replace("{body}", body))
        made.append(Sdk({"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin"}))
        made[-1].first_answer_s = made[-1].answer_s = PATIENCE_S
        return made[-1]

    yield make
    for sdk in made:
        sdk.close()


def read_until(sdk: Sdk, python: str, is_it: Callable[[list[float] | str], bool]) -> list[float] | str:
    """As the sampler does: again and again, and no look waits."""
    end = time.monotonic() + PATIENCE_S
    while not is_it(found := sdk.read(python)):
        assert time.monotonic() < end, found
        time.sleep(0.02)
    return found


def test_each_tensorcore_is_told_anew_at_each_look(make_sdk: MakeSdk) -> None:
    sdk = make_sdk("_Metric.n = getattr(_Metric, 'n', 0) + 1; return [f'{_Metric.n}.50', '20.00']")

    assert read_until(sdk, sys.executable, lambda found: isinstance(found, list)) == [1.5, 20.0]
    assert read_until(sdk, sys.executable, lambda found: found != [1.5, 20.0]) == [2.5, 20.0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise RuntimeError('no such metric')", "no such metric"),
        ("return ['busy']", "can't be read"),
        ("os._exit(3)", "crashed"),
        ("import time; time.sleep(1000)", "is not responding"),
    ],
)
def test_an_sdk_that_fails_is_told_of(make_sdk: MakeSdk, body: str, words: str) -> None:
    sdk = make_sdk(body)
    if "sleep" in body:
        sdk.first_answer_s = 0.5

    assert words in read_until(sdk, sys.executable, lambda found: words in found)


def test_a_python_without_libtpu_is_no_fault() -> None:
    sdk = Sdk({"PATH": "/usr/bin"})
    try:
        assert read_until(sdk, sys.executable, lambda found: found == MISSING) == MISSING
        assert "does not start" in read_until(sdk, "/no/such/python", lambda found: "does not start" in found)
    finally:
        sdk.close()
