"""Numbers that no float can hold are refused in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jupyter_tpu.errors import BadInput
from jupyter_tpu.server.routes.autostop import extension_from_body, rules_from_body
from jupyter_tpu.server.routes.bodies import number_field

HUGE = 10**400
READERS: dict[str, Callable[[int], Any]] = {
    "queue": lambda number: number_field({"valid_for_s": number}, "valid_for_s"),
    "session": lambda number: rules_from_body(b'{"session_s": %d}' % number),
    "idle": lambda number: rules_from_body(b'{"idle_after_s": %d}' % number),
    "keep for": lambda number: extension_from_body(b'{"for_s": %d}' % number, 0.0),
    "keep until": lambda number: extension_from_body(b'{"until": %d}' % number, 0.0),
}


@pytest.mark.parametrize("number", [HUGE, -HUGE])
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_number_that_is_too_long_is_bad_input(read: Callable[[int], Any], number: int) -> None:
    with pytest.raises(BadInput, match="is not a number"):
        read(number)
