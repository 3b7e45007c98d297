"""Format a traceback in advance, because IPython's first traceback takes long and would delay the first interrupt."""

from __future__ import annotations

import copy
import sys
import threading
from contextlib import suppress
from typing import Any


def prepare_tracebacks(shell: Any) -> None:
    """Format a traceback in another thread, so that its imports and compiled patterns are ready when one is needed."""
    threading.Thread(target=_format, args=(shell,), name="jupyter-tpu tracebacks", daemon=True).start()


def _format(shell: Any) -> None:
    with suppress(Exception):  # the first error then takes longer
        try:
            _fail()
        except KeyboardInterrupt:
            # a copy, because the main thread may format an error meanwhile
            copy.copy(shell.InteractiveTB).structured_traceback(*sys.exc_info())


def _fail() -> None:
    raise KeyboardInterrupt
