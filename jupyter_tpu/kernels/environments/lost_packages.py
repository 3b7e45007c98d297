"""Name the packages that cells had installed in a lost node's own Python, which no environment restores."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jupyter_tpu.kernels.environments.requirements import without_user

_INSTALL = re.compile(r"^\s*[%!]\s*((?:uv\s+)?pip3?\s+install\s.*\S)", re.MULTILINE)
# Together at most 1,600 characters: a notice in a notebook, not a log.
_MOST = 8
_LONGEST = 200


def lost_packages_notice(codes: Iterable[str]) -> str:
    """Return for users the installations in these cells, and how to repeat them; empty if there are none.

    >>> lost_packages_notice(["x = 1"])
    ''
    >>> lost_packages_notice(["x = 1\\n%pip install einops", "!uv pip install a@https://me@example.org/a.whl"])[:75]
    "Lost with the node: packages that cells had installed in the node's own Pyt"
    """
    found = dict.fromkeys(without_user(line)[:_LONGEST] for code in codes for line in _INSTALL.findall(code))
    if not found:
        return ""
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return (
        "Lost with the node: packages that cells had installed in the node's own Python: "
        f"{'; '.join([*found][:_MOST])}{more}. Run these cells again. (An environment is restored automatically.)"
    )
