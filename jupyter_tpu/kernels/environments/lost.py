"""What cells had installed in a worker's own Python, which no environment brings back: named when its node is lost."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jupyter_tpu.kernels.environments.requirements import without_user

_INSTALL = re.compile(r"^\s*[%!]\s*((?:uv\s+)?pip3?\s+install\s.*\S)", re.MULTILINE)
_MOST = 8
_LONGEST = 200


def what_is_gone(codes: Iterable[str]) -> str:
    """For people: the installations in these cells, and how to have them again; empty if there are none.

    >>> what_is_gone(["x = 1"])
    ''
    >>> what_is_gone(["x = 1\\n%pip install einops", "!uv pip install a@https://me@example.org/a.whl"])[:75]
    "Gone with the node is what cells had added to the node's own Python: pip in"
    """
    found = dict.fromkeys(without_user(line)[:_LONGEST] for code in codes for line in _INSTALL.findall(code))
    if not found:
        return ""
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return (
        f"Gone with the node is what cells had added to the node's own Python: {'; '.join([*found][:_MOST])}{more}. "
        "Run them again. (A kernel in an environment gets back what was added to that.)"
    )
