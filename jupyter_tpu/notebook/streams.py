"""Restore the output streams after a cell that has removed them, because IPython can't run a cell without them."""

from __future__ import annotations

import sys
from typing import Any

_NAMES = ("stdout", "stderr")


def restore_streams(shell: Any) -> None:
    """After each cell of a shell, restore ``sys.stdout`` and ``sys.stderr`` if they are None, for example."""
    before: dict[str, Any] = {}

    def remember() -> None:
        before.update({name: getattr(sys, name, None) for name in _NAMES})

    def restore() -> None:
        for name, stream in before.items():
            if not hasattr(getattr(sys, name, None), "write"):
                setattr(sys, name, stream)

    # Remember the streams only now, because an engine replaces them after loading its extensions.
    shell.events.register("pre_execute", remember)
    shell.events.register("post_execute", restore)
