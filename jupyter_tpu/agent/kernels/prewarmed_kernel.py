"""A pre-warmed kernel (a spare), which runs this code until it becomes a user's kernel.

This module runs in the kernel's process. The spare imports all modules, then waits for a line from the agent on
standard input that specifies a kernel. It adopts that kernel's environment variables, folder and key, and becomes an
ordinary kernel. If the agent exits first, the spare exits too.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import sysconfig
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.kernels.output_capture import OutputCapture


class SpareKernel:
    """A pre-warmed kernel process, from its start until it becomes a user's kernel.

    Args:
        app: the IPKernelApp, initialized but not started.
        capture: the capture of the kernel's messages.
        go_to: a function that changes the working directory to a folder.
    """

    def __init__(self, app: Any, capture: OutputCapture, go_to: Callable[[str], None]) -> None:
        self._app = app
        self._capture = capture
        self._go_to = go_to
        self._agent = socket.socket(fileno=os.dup(0))

    def wait(self) -> None:
        """Run an empty cell to warm up, and start a thread that waits until the agent assigns a kernel."""
        from tornado.ioloop import IOLoop

        # Run an empty cell in advance, because a kernel's first cell imports and compiles more than later ones.
        self._app.shell.run_cell("None", silent=True, store_history=False)
        thread = threading.Thread(target=self._wait, name="jupyter-tpu spare", daemon=True)
        IOLoop.current().call_later(0, thread.start)

    def _wait(self) -> None:
        with self._agent, self._agent.makefile("rb") as lines:
            self._send(
                {"kernel_info": {"status": "ok", **self._app.kernel.kernel_info}, "watched": _watched(self._app)}
            )
            line = lines.readline()
            if not line:
                os._exit(0)
            self._become(json.loads(line))
            # The agent waits for this message before it sends anything to the kernel.
            self._send({})

    def _send(self, content: dict[str, Any]) -> None:
        self._agent.sendall(json.dumps(content).encode() + b"\n")

    def _become(self, kernel: dict[str, Any]) -> None:
        os.environ.update(kernel["env"])
        self._go_to(kernel["cwd"])
        self._app.connection_file = sys.argv[2] = kernel["connection_file"]
        self._capture.pipe = kernel["pipe"]
        self._app.session.signature_scheme = kernel["signature_scheme"]
        self._app.session.key = kernel["key"].encode()
        # The user's code must not read the agent's socket as its standard input.
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        # Join the slice now. When the notebook module was loaded, it wasn't known yet whether the kernel belongs to a
        # slice.
        importlib.import_module("jupyter_tpu.notebook.slices").join(self._app.shell)
        self._forget()
        self._app.kernel._publish_status("starting", "shell")

    def _forget(self) -> None:
        """Drop all existing messages, which are signed with the spare's own key."""
        self._capture.reset()
        forgotten = threading.Event()
        self._app.iopub_thread.schedule(forgotten.set)
        forgotten.wait()


def _changed_at(path: str) -> float:
    """Return when a file or folder was last changed, or 0 if it doesn't exist."""
    with suppress(OSError):
        return Path(path).stat().st_mtime
    return 0.0


def _watched(app: Any) -> dict[str, float]:
    """Return the files that the spare has read, with their modification times.

    If a file changes, the spare is outdated.
    """
    profile = app.shell.profile_dir
    packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    settings = [str(Path(profile.location) / name) for name in ("ipython_config.py", "ipython_kernel_config.py")]
    return {path: _changed_at(path) for path in (*packages, profile.startup_dir, *settings)}
