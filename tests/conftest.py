"""Fixtures that all parts share: the emulated cloud in a process of its own, and folders that are ours alone."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator import Emulator, EmulatorPool
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

# By default Hypothesis fails an example that takes 200 ms, and a test whose first examples take a second to make up.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("nightly", settings.get_profile("any machine"), max_examples=500)
settings.load_profile("any machine")


ONE_DEMO = "tests/ui/notebook/"


class Scheduling(LoadScopeScheduling):
    """One module after the other, but what shares a demo goes to one worker, which starts that once."""

    def _split_scope(self, nodeid: str) -> str:
        return ONE_DEMO if nodeid.startswith(ONE_DEMO) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    return Scheduling(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that take minutes: one of them at the end would leave all cores but one idle."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/ui/"))


@pytest.fixture(scope="session", autouse=True)
def _hearing_signals() -> Iterator[None]:
    """What is started here hears Ctrl-C and the end of its terminal, also where the checks run in the background."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGHUP, signal.SIGINT)}
    if before[signal.SIGINT] is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, before[signal.SIGINT])
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def emulator_pool() -> Iterator[EmulatorPool]:
    pool = EmulatorPool()
    yield pool
    pool.close()


@pytest.fixture
def make_emulator(emulator_pool: EmulatorPool) -> Iterator[Callable[..., Emulator]]:
    """Gives empty emulators with options of one's own, such as ``"--sshd", "system"``."""
    lent: list[Emulator] = []

    def make(*options: str) -> Emulator:
        lent.append(emulator_pool.lend(options))
        return lent[-1]

    yield make
    for emulator in lent:
        emulator_pool.take_back(emulator)


@pytest.fixture
def emulator(make_emulator: Callable[..., Emulator]) -> Emulator:
    """An empty emulated cloud, 200 virtual seconds per second, with the embedded SSH server."""
    return make_emulator()


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh folder in which jupyter_tpu and Jupyter keep everything; returns that of jupyter_tpu."""
    folders = {
        "JUPYTER_TPU_DATA_DIR": tmp_path / "jupyter-tpu",
        "JUPYTER_DATA_DIR": tmp_path / "jupyter-data",
        "JUPYTER_CONFIG_DIR": tmp_path / "jupyter-config",
        "JUPYTER_RUNTIME_DIR": tmp_path / "jupyter-runtime",
        "IPYTHONDIR": tmp_path / "ipython",
    }
    for name, folder in folders.items():
        monkeypatch.setenv(name, str(folder))
    return folders["JUPYTER_TPU_DATA_DIR"]
