"""A slice without agents: a kernel, a controller and engines as plain processes, each worker with its own address."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

_EXTENSION = "--IPKernelApp.extra_extensions=jupyter_tpu.notebook"
_NUMBERS = itertools.count(1)


@dataclass
class Ran:
    """A cell that has run: its reply, and its outputs as a front end shows them."""

    reply: dict[str, Any]
    outputs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def error(self) -> str:
        return f"{self.reply['ename']}: {self.reply['evalue']}" if self.reply["status"] == "error" else ""

    @property
    def printed(self) -> str:
        """What worker 0 has printed."""
        return "".join(each["text"] for each in self.outputs if "text" in each)

    @property
    def others(self) -> str:
        """What is shown of the other workers, as text."""
        texts = [each["data"]["text/plain"] for each in self.outputs if each.get("transient", {}).get("display_id")]
        return "\n".join(filter(None, texts))


class SliceClient:
    """A front end of worker 0's kernel."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client
        self._outputs: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._replies: dict[str, dict[str, Any]] = {}
        self._done: set[str] = set()

    def send(self, code: str, *, allow_stdin: bool = False) -> str:
        """Send a cell without waiting for it."""
        return self.client.execute(code, allow_stdin=allow_stdin)

    def run(self, code: str, answer: str | None = None, timeout: float = 60) -> Ran:
        """Run a cell to its end, and answer its ``input()``."""
        return self.result(self.send(code, allow_stdin=answer is not None), answer, timeout)

    def result(self, request: str, answer: str | None = None, timeout: float = 60) -> Ran:
        """Wait for the end of a cell."""
        if answer is not None:
            self.client.get_stdin_msg(timeout=timeout)
            self.client.input(answer)
        while request not in self._done:
            self._hear(timeout)
        while request not in self._replies:
            reply = self.client.get_shell_msg(timeout=timeout)
            self._replies[reply["parent_header"].get("msg_id", "")] = reply["content"]
        return Ran(self._replies[request], self._outputs[request])

    def wait_for_output(self, request: str, text: str, timeout: float = 30) -> None:
        """Wait until the running cell shows a text."""
        while text not in json.dumps(self._outputs[request]):
            assert request not in self._done, self._outputs[request]
            self._hear(timeout)

    def _hear(self, timeout: float) -> None:
        """Wait for the next message about any cell."""
        message = self.client.get_iopub_msg(timeout=timeout)
        request = message["parent_header"].get("msg_id", "")
        _apply(self._outputs[request], message)
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            self._done.add(request)


class RawSlice(SliceClient):
    """A running slice.

    Args:
        folder: for its files.
        workers: how many, worker 0 included.
        environ: more variables for all processes.
    """

    def __init__(self, folder: Path, workers: int, environ: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.workers = workers
        self._environ = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), **(environ or {})}
        self._security = folder / "profile" / "security"
        address = f"127.77.{os.getpid() % 250}.{next(_NUMBERS)}"
        self._controller = self._start(
            "controller",
            f"--profile-dir={folder / 'profile'}",
            f"--IPController.ip={address}",
            f"--IPController.location={address}",
            "--IPController.use_threads=True",
            "--IPController.db_class=ipyparallel.controller.dictdb.NoDB",
            "--IPController.registration_timeout=600",
            "--HeartMonitor.period=1000",
            IPP_ENABLE_CURVE="1",
        )
        self.engines: dict[int, subprocess.Popen[bytes]] = {}
        slice_file = folder / "slice.json"
        self.client_file = self._security / "ipcontroller-client.json"
        self.state_file = folder / "state.json"
        facts = {"client_file": str(self.client_file), "state_file": str(self.state_file)}
        slice_file.write_text(json.dumps({"version": 1, "workers": workers, **facts}))
        self.manager = KernelManager()
        self.manager.kernel_spec.interrupt_mode = "message"
        self.manager.start_kernel(
            env={**self._environ, "TPU_SLICE_FILE": str(slice_file), "MPLBACKEND": "agg"},
            extra_arguments=[_EXTENSION],
        )
        super().__init__(self.manager.client())
        self.client.start_channels()

    def start_engines(self, *workers: int, **environ: str) -> None:
        """Start the engines of these workers, or of all, with more variables."""
        file = self._security / "ipcontroller-engine.json"
        while not _is_json(file):
            assert self._controller.poll() is None, (self.folder / "controller.log").read_text()
            time.sleep(0.02)
        for worker in workers or range(1, self.workers):
            profile = self.folder / f"worker{worker}"
            profile.mkdir()
            self.engines[worker] = self._start(
                "engine",
                f"--file={file}",
                f"--IPEngine.id={worker}",
                f"--profile-dir={profile}",
                "--timeout=300",
                "--IPEngine.max_heartbeat_misses=10",
                _EXTENSION,
                TPU_SLICE_WORKER=str(worker),
                TPU_SLICE_WORKERS=str(self.workers),
                **environ,
            )

    def _start(self, program: str, *arguments: str, **environ: str) -> subprocess.Popen[bytes]:
        name = program + environ.get("TPU_SLICE_WORKER", "")
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"ipyparallel.{program}", *arguments],
                env={**self._environ, **environ},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def engine_of(self, worker: int) -> psutil.Process:
        return psutil.Process(self.engines[worker].pid)

    @property
    def controller(self) -> psutil.Process:
        return psutil.Process(self._controller.pid)

    @property
    def kernel(self) -> psutil.Process:
        return psutil.Process(self.manager.provisioner.pid)

    def kill_controller(self) -> None:
        os.killpg(self._controller.pid, signal.SIGKILL)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        for process in [self._controller, *self.engines.values()]:
            family = [psutil.Process(process.pid)] if process.poll() is None else []
            for each in [*family, *(child for parent in family for child in parent.children(recursive=True))]:
                each.send_signal(signal.SIGKILL)
            process.wait()


def _is_json(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text()))
    except (OSError, ValueError):
        return False


def _apply(outputs: list[dict[str, Any]], message: dict[str, Any]) -> None:
    """Add an output as a front end does, which replaces updated displays."""
    kind, content = message["msg_type"], message["content"]
    if kind == "update_display_data":
        for each in outputs:
            if each.get("transient", {}).get("display_id") == content["transient"]["display_id"]:
                each["data"] = content["data"]
    elif kind == "clear_output":
        outputs.clear()
    elif kind in {"stream", "display_data", "execute_result", "error"}:
        outputs.append(dict(content))
