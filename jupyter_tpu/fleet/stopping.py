"""What a refusal to stop a node means: most pass by, and to delete the node then would cost its disk for nothing."""

from __future__ import annotations

import re

from jupyter_tpu.errors import BadInput, CloudRefused, NodeNotFound, TpuError

LAST_RESORT_S = 300.0
"""A node that costs beyond a cap is deleted when the cloud has refused for so long to stop it."""

LAST_RESORT_OF_PANIC_S = 120.0
"""The same where the user asked to stop all spending now."""

_FOR_GOOD = re.compile(
    r"stop\w*\b.{0,80}\b(not supported|unsupported|not possible)|(not supported|unsupported).{0,80}\bstop"
    r"|(cannot|can't|can not) be stopped|can only be deleted",
    re.IGNORECASE | re.DOTALL,
)


def is_for_good(error: TpuError) -> bool:
    """Whether the cloud says that such a node cannot be stopped at all, whoever asks and whenever."""
    is_about_the_node = type(error) in (BadInput, CloudRefused) or error.code == "wrong_state"
    return is_about_the_node and _FOR_GOOD.search(f"{error.raw} {error.message}") is not None


def may_pass(error: TpuError) -> bool:
    """Whether it is a refusal that may be another one soon: of permission, of too many requests, of a state."""
    is_refusal = isinstance(error, (CloudRefused, BadInput)) and not isinstance(error, NodeNotFound)
    return is_refusal and not is_for_good(error)
