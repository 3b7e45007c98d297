"""Other people's nodes, which cost as much."""

from __future__ import annotations

from typing import Any

import pytest
from emulator import Elsewhere


@pytest.fixture
def elsewhere(terminal: Any) -> Elsewhere:
    """Somebody else at work in the terminal's project."""
    return Elsewhere(terminal.rest, terminal.environment["JUPYTER_TPU_PROJECT"])
