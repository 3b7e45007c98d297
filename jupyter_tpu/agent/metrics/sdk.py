"""Read the utilisation of each TensorCore from libtpu's SDK, its only source, in a separate process.

The process uses the kernels' Python, where libtpu is installed, and runs while the chips are in use. Without
``TPU_SKIP_MDS_QUERY``, the SDK waits minutes for a metadata server that doesn't respond. The variable is set only for
this process, because in a kernel it would break the setup of slices.
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
_SILENT = "libtpu's SDK is not responding"
_BEGINNING = "waiting for libtpu's SDK"
# Retry interval after a failure: libtpu is rarely installed while a kernel is running, and each attempt starts a Python
# process.
_AGAIN_AFTER_S = 600.0
# Maximum size of a response in bytes. A response contains only one number for each TensorCore.
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
    """The SDK's process. This class is not thread-safe.

    Each sample sends a request and reads the response to the previous request, so that no sample waits.

    Attributes:
        first_answer_s: time limit for the first response, which includes loading libtpu.
        answer_s: time limit for each later response.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.first_answer_s, self.answer_s = 60.0, 2.0
        self._environment = {**environ, "TPU_SKIP_MDS_QUERY": "1"}
        self._process: subprocess.Popen[bytes] | None = None
        self._python = ""
        self._received = b""
        self._answer_by = 0.0
        self._again_at = 0.0
        self._found: list[float] | str = _BEGINNING

    def read(self, python: str) -> list[float] | str:
        """Return the utilisation in percent of this worker's TensorCores, in libtpu's order, or why it is unknown.

        Args:
            python: the Python to use; if it differs from the last call's, a new process is started.
        """
        # Another kernel is using the chips, and its environment may have a different libtpu.
        if python != self._python:
            self.close()
            self._python, self._again_at = python, 0.0
        if self._process is not None:
            self._receive(self._process)
        elif time.monotonic() >= self._again_at:
            self._begin()
        return self._found

    def close(self) -> None:
        """Stop the process; the next `read` starts a new one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process, self._received, self._found = None, b"", _BEGINNING

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
            self._request(self._process, self.first_answer_s)

    def _request(self, process: subprocess.Popen[bytes], patience_s: float) -> None:
        assert process.stdin is not None
        self._answer_by = time.monotonic() + patience_s
        with suppress(OSError):  # the process has exited, and the next read notices that
            process.stdin.write(b"?\n")
            process.stdin.flush()

    def _receive(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        has_ended = False
        while not has_ended and b"\n" not in self._received and select.select([process.stdout], [], [], 0)[0]:
            piece = os.read(process.stdout.fileno(), _LONGEST_LINE)
            self._received += piece
            has_ended = not piece
        if b"\n" in self._received:
            line, _, self._received = self._received.partition(b"\n")
            self._parse(process, line)
        elif has_ended:
            self._give_up("libtpu's SDK has crashed")
        elif time.monotonic() > self._answer_by or len(self._received) > _LONGEST_LINE:
            self._give_up(_SILENT)

    def _parse(self, process: subprocess.Popen[bytes], line: bytes) -> None:
        try:
            answer = json.loads(line)
            if "missing" in answer:
                self._give_up(MISSING)
                return
            self._found = [float(text) for text in answer["data"]] if "data" in answer else str(answer["error"])
        except (ValueError, TypeError, KeyError, RecursionError):
            self._found = "the response of libtpu's SDK can't be read"
        self._request(process, self.answer_s)

    def _give_up(self, why: str) -> None:
        self.close()
        self._found, self._again_at = why, time.monotonic() + _AGAIN_AFTER_S
