"""One demo with one READY node for all tests of notebooks: starting these takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from running_demo import Demo, start_demo, stop_demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    running = start_demo(tmp_path_factory.mktemp("demo"))
    yield running
    stop_demo(running)


@pytest.fixture(scope="session")
def kernel_name(demo: Demo) -> str:
    return demo.create_node()
