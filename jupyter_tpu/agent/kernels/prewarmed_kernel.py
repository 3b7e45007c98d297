"""A kernel that was started before anybody wanted it; runs inside the kernel's process.

It waits, imported and warm, for the word of the agent, which comes on standard input: whose kernel it is to be. Then it
takes on that kernel's environment, folder and key, and is from there on a kernel as any other. If the agent ends before
it does so, the spare ends too.
"""

from __future__ import annotations

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
    """The spare, from its start to the hand-over.

    Args:
        app: the initialized, not yet started IPKernelApp.
        voice: what the kernel says to the agent goes through it.
        go_to: changes to a folder.
    """

    def __init__(self, app: Any, voice: OutputCapture, go_to: Callable[[str], None]) -> None:
        self._app = app
        self._voice = voice
        self._go_to = go_to
        self._agent = socket.socket(fileno=os.dup(0))

    def wait(self) -> None:
        """Warm up, then wait for the agent's word as soon as the kernel's loop runs."""
        from tornado.ioloop import IOLoop

        self._app.shell.run_cell("None", silent=True, store_history=False)
        thread = threading.Thread(target=self._wait, name="jupyter-tpu spare", daemon=True)
        IOLoop.current().call_later(0, thread.start)

    def _wait(self) -> None:
        with self._agent, self._agent.makefile("rb") as words:
            self._tell(
                {"kernel_info": {"status": "ok", **self._app.kernel.kernel_info}, "watched": _watched(self._app)}
            )
            word = words.readline()
            if not word:
                os._exit(0)
            self._become(json.loads(word))
            self._tell({})

    def _tell(self, content: dict[str, Any]) -> None:
        self._agent.sendall(json.dumps(content).encode() + b"\n")

    def _become(self, kernel: dict[str, Any]) -> None:
        os.environ.update(kernel["env"])
        self._go_to(kernel["cwd"])
        self._app.connection_file = sys.argv[2] = kernel["connection_file"]
        self._voice.pipe = kernel["pipe"]
        self._app.session.signature_scheme = kernel["signature_scheme"]
        self._app.session.key = kernel["key"].encode()
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        self._forget()
        self._app.kernel._publish_status("starting", "shell")

    def _forget(self) -> None:
        """What was said so far is signed with the spare's own key."""
        self._voice.forget()
        forgotten = threading.Event()
        self._app.iopub_thread.schedule(forgotten.set)
        forgotten.wait()


def _changed_at(path: str) -> float:
    """When a file or folder was changed last; 0 where there is none."""
    with suppress(OSError):
        return Path(path).stat().st_mtime
    return 0.0


def _watched(app: Any) -> dict[str, float]:
    """What has been read or imported, and may be something else by the time that the spare is used."""
    profile = app.shell.profile_dir
    packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    settings = [str(Path(profile.location) / name) for name in ("ipython_config.py", "ipython_kernel_config.py")]
    return {path: _changed_at(path) for path in (*packages, profile.startup_dir, *settings)}
