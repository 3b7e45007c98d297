"""The use of each TensorCore, which only libtpu's SDK tells: asked in a process of its own, where libtpu is installed.

That process runs on the Python of the kernels and lives while somebody uses the chips. Without
``TPU_SKIP_MDS_QUERY`` the SDK waits minutes for a metadata server that does not answer; in a kernel that variable would
break the set-up of slices, so it is set for this process only.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress

from jupyter_tpu.agent.metrics.validate import TENSORCORE

MISSING = "needs libtpu's SDK in the Python of the kernels, where it is not installed"
_SILENT = "libtpu's SDK does not answer"
_BEGINNING = "libtpu's SDK is being asked"
_AGAIN_AFTER_S = 600.0
_LONGEST_LINE = 65536

_PROGRAM = f"""
import json, sys
try:
    from libtpu import sdk
    monitoring = sdk.tpumonitoring
except (ImportError, AttributeError) as error:
    print(json.dumps({{"missing": str(error)[:200]}}), flush=True)
    raise SystemExit from None
for _ in sys.stdin:
    try:
        answer = {{"data": [str(each) for each in monitoring.get_metric({TENSORCORE!r}).data()]}}
    except Exception as error:
        answer = {{"error": str(error)[:200]}}
    print(json.dumps(answer), flush=True)
"""


class Sdk:
    """Asks once a look and takes the answer at the next, so that nobody ever waits. Used from one thread at a time.

    `first_answer_s` is what it is given to load libtpu, `answer_s` for each answer after that.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.first_answer_s, self.answer_s = 60.0, 2.0
        self._environment = {**environ, "TPU_SKIP_MDS_QUERY": "1"}
        self._process: subprocess.Popen[bytes] | None = None
        self._python = ""
        self._said = b""
        self._answer_by = 0.0
        self._again_at = 0.0
        self._found: list[float] | str = _BEGINNING

    def read(self, python: str) -> list[float] | str:
        """Percent of each TensorCore of this worker, in libtpu's order; a text says why they are not known."""
        if python != self._python:
            self.close()
            self._python, self._again_at = python, 0.0
        if self._process is not None:
            self._hear(self._process)
        elif time.monotonic() >= self._again_at:
            self._begin()
        return self._found

    def close(self) -> None:
        """End the process; the next `read` begins another one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process, self._said, self._found = None, b"", _BEGINNING

    def _begin(self) -> None:
        try:
            self._process = subprocess.Popen(
                [self._python, "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            self._give_up(f"the Python of the kernels does not start: {error}")
        else:
            self._ask(self._process, self.first_answer_s)

    def _ask(self, process: subprocess.Popen[bytes], patience_s: float) -> None:
        assert process.stdin is not None
        self._answer_by = time.monotonic() + patience_s
        with suppress(OSError):  # that it has ended is heard at the next look
            process.stdin.write(b"?\n")
            process.stdin.flush()

    def _hear(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        has_ended = False
        while not has_ended and b"\n" not in self._said and select.select([process.stdout], [], [], 0)[0]:
            piece = os.read(process.stdout.fileno(), _LONGEST_LINE)
            self._said += piece
            has_ended = not piece
        if b"\n" in self._said:
            line, _, self._said = self._said.partition(b"\n")
            self._take(process, line)
        elif has_ended:
            self._give_up("libtpu's SDK has crashed")
        elif time.monotonic() > self._answer_by or len(self._said) > _LONGEST_LINE:
            self._give_up(_SILENT)

    def _take(self, process: subprocess.Popen[bytes], line: bytes) -> None:
        try:
            answer = json.loads(line)
            if "missing" in answer:
                self._give_up(MISSING)
                return
            self._found = [float(text) for text in answer["data"]] if "data" in answer else str(answer["error"])
        except (ValueError, TypeError, KeyError, RecursionError):
            self._found = "libtpu's SDK talks nonsense"
        self._ask(process, self.answer_s)

    def _give_up(self, why: str) -> None:
        self.close()
        self._found, self._again_at = why, time.monotonic() + _AGAIN_AFTER_S
