"""A person with a terminal and an emulated cloud."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from emulator import Emulator, EmulatorPool
from terminal import Terminal


@contextmanager
def terminal_of(emulator: Emulator) -> Iterator[Terminal]:
    # pytest's own folders have names too long for Unix sockets
    with tempfile.TemporaryDirectory(prefix="jt-", ignore_cleanup_errors=True) as home:
        yield Terminal.at(Path(home), emulator)


@pytest.fixture(scope="module")
def shared_emulator(emulator_pool: EmulatorPool) -> Iterator[Emulator]:
    """The cloud of `terminal`; modules that want another kind replace it."""
    with emulator_pool.lent() as emulator:
        yield emulator


@pytest.fixture(scope="module")
def terminal(shared_emulator: Emulator) -> Iterator[Terminal]:
    """A terminal whose cloud is an emulator, for all tests of a module; each test leaves the cloud as it was."""
    with terminal_of(shared_emulator) as at:
        yield at


@pytest.fixture(scope="module")
def bare_terminal(emulator_pool: EmulatorPool) -> Iterator[Terminal]:
    """A terminal whose workers are as the real image gives them: a python3 without packages, and no uv."""
    with emulator_pool.lent("--worker-image", "bare") as emulator, terminal_of(emulator) as at:
        yield at
