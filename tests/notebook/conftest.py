"""Real IPython shells and real JAX, each in a process of its own: what JAX decides at its start cannot be undone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

_SHELL = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
shell.run_line_magic("load_ext", "jupyter_tpu")
sys.exit(not all([shell.run_cell(cell).success for cell in sys.argv[1:]]))
"""


@dataclass(frozen=True)
class ShellRun:
    """What a shell printed, and whether all of its cells succeeded."""

    succeeded: bool
    text: str


RunCells = Callable[..., ShellRun]


@pytest.fixture
def run_cells(tmp_path) -> RunCells:
    """Run cells one after the other in a fresh IPython shell that has loaded our extension."""

    def run(*cells: str, environ: dict[str, str] | None = None) -> ShellRun:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "TPU_", "XLA_"))}
        done = subprocess.run(
            [sys.executable, "-c", _SHELL, *cells],
            env={**inherited, "IPYTHONDIR": str(tmp_path), **(environ or {})},
            capture_output=True,
            text=True,
            timeout=240,
        )
        return ShellRun(succeeded=done.returncode == 0, text=done.stdout + done.stderr)

    return run
