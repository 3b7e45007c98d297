"""How the processes of workers are killed."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

from jupyter_tpu.emulator.workers.process_tree import TOKEN_VARIABLE, kill_processes_of


def test_processes_are_killed_even_if_the_search_for_them_takes_longer_than_the_patience() -> None:
    token = f"of-this-test-{os.getpid()}"
    with subprocess.Popen(["sleep", "600"], env={**os.environ, TOKEN_VARIABLE: token}) as process:
        with suppress(TimeoutError):
            kill_processes_of([token], patience_s=0.0)
        assert process.wait(60) == -signal.SIGKILL
