"""A plugin of pytest that runs the test modules in another order each night: ``-p shuffled_modules --shuffle-seed N``.

Which modules share a process depends on the machine's speed. A test that leaves something behind in its process (a
language, an imported library) fails another one only on some machines, and here in some nights.
"""

from __future__ import annotations

import random
from itertools import groupby

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle-seed", type=int, required=True, help="the same seed gives the same order")


def pytest_report_header(config: pytest.Config) -> str:
    return f"modules shuffled: --shuffle-seed {config.getoption('shuffle_seed')}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    modules = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    random.Random(config.getoption("shuffle_seed")).shuffle(modules)
    items[:] = [test for tests in modules for test in tests]
