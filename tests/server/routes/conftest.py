"""Other people's nodes, which routes list as well."""

from __future__ import annotations

from typing import Any

import pytest
from emulator import Elsewhere


@pytest.fixture
def elsewhere(cloud: Any) -> Elsewhere:
    """Somebody else at work in the project."""
    return Elsewhere(cloud.rest, cloud.project)
