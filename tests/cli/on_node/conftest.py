"""A terminal whose nodes lack what commands on a node need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def bare_terminal(run_terminal: Callable[..., Iterator[Any]]) -> Iterator[Any]:
    """A terminal whose workers are as the real image gives them: a python3 without packages, and no uv."""
    yield from run_terminal("--worker-image", "bare")
