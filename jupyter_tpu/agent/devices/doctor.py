"""The agent's method ``examine``: run the doctor on this worker, in a process that uses the kernels' Python."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_tpu.diagnostics import Finding
from jupyter_tpu.errors import EnvironmentFailed

_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from jupyter_tpu.notebook.doctor import examine; examine.main()"
_ARCHIVE = Path(__file__).resolve().parents[3]
# Time limit: a hanging Python must not block the caller forever.
_PATIENCE_S = 30.0


class DoctorMethod:
    """The method that runs the doctor.

    Args:
        python: the kernels' Python, whose packages are checked.
        socket: path of this agent's socket, for the doctor's own requests.
    """

    def __init__(self, python: str, socket: Path) -> None:
        self._python = python
        self._socket = socket

    async def examine(self, _params: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``{"findings": [...]}``, see `Finding.to_json`.

        Raises:
            EnvironmentFailed: the doctor can't run in the kernels' Python.
        """
        output = await asyncio.to_thread(self._run)
        try:
            return {"findings": [Finding.from_json(each).to_json() for each in json.loads(output)]}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._failed(output[-2000:].decode(errors="replace")) from error

    def _run(self) -> bytes:
        # Run the program in the kernels' Python to check its packages; the agent's own environment has other packages.
        environment = {**os.environ, "JUPYTER_TPU_AGENT_SOCKET": str(self._socket)}
        argv = [self._python, "-c", _PROGRAM, str(_ARCHIVE)]
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, env=environment, cwd="/", timeout=_PATIENCE_S
            )
        except subprocess.TimeoutExpired:
            raise self._failed(f"It did not respond within {_PATIENCE_S:.0f} s.") from None
        except OSError as error:
            raise self._failed(str(error)) from error
        if done.returncode:
            raise self._failed(done.stderr[-2000:].decode(errors="replace"))
        return done.stdout

    def _failed(self, raw: str) -> EnvironmentFailed:
        return EnvironmentFailed(
            f"The doctor could not run in the kernels' Python {self._python} on the worker.",
            hint="Start a kernel there to see what is wrong with that Python.",
            raw=raw,
        )
