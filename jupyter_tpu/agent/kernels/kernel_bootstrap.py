"""Starts ipykernel so that it loses nothing; runs inside the kernel's process, on whatever ipykernel is there.

What is changed in ipykernel for that is in `output_capture`. If it does not fit the installed version, the kernel
starts without it. It is a script, so that any Python on the worker can run it.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_tpu.agent.kernels.output_capture import OutputCapture

ARCHIVE = Path(__file__).resolve().parents[3]


def put_own_package_first() -> None:
    """Python puts a script's folder first; modules of the agent must not shadow the user's."""
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [str(ARCHIVE), *(entry for entry in sys.path if entry != here)]


def adapt(socket_prefix: str) -> OutputCapture | None:
    """Change what this ipykernel has; None, and a word in the kernel's log, where it has something else."""
    try:
        from ipykernel.iostream import IOPubThread, OutStream
        from ipykernel.kernelapp import IPKernelApp

        from jupyter_tpu.agent.kernels import output_capture

        voice = output_capture.OutputCapture(f"{socket_prefix}-pipe")
        output_capture.adapt_pipe(IOPubThread, voice)
        output_capture.adapt_sockets(IPKernelApp, voice)
        output_capture.adapt_publisher(IOPubThread, voice)
        output_capture.adapt_text(OutStream, voice)
    except (ImportError, AttributeError) as error:
        warnings.warn(f"output may be lost when the agent dies: {error}", stacklevel=1)
        return None
    return voice


def forget_own_package() -> None:
    """What the user installed under this name comes first for whoever imports it from now on."""
    sys.path.remove(str(ARCHIVE))
    sys.path.append(str(ARCHIVE))
    for name in [name for name in sys.modules if name.partition(".")[0] == "jupyter_tpu"]:
        del sys.modules[name]


def go_to(folder: str) -> None:
    """Work in the folder asked for, or at home when the worker has no such folder."""
    try:
        os.chdir(folder)
    except OSError:
        os.chdir(Path.home())


def run_spare(voice: OutputCapture | None) -> None:
    """Start a kernel that waits for the agent's word; without a voice it could not begin anew."""
    if voice is None:
        sys.exit("this ipykernel cannot wait in reserve")
    from ipykernel.kernelapp import IPKernelApp

    from jupyter_tpu.agent.kernels.prewarmed_kernel import SpareKernel

    forget_own_package()
    app: Any = IPKernelApp.instance()
    app.initialize()
    SpareKernel(app, voice, go_to).wait()
    app.start()


def run(voice: OutputCapture | None) -> None:  # noqa: ARG001 - the kernel holds it
    """Start the kernel."""
    forget_own_package()
    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance()


def main(argv: list[str]) -> None:
    """``kernel_bootstrap.py [--spare] FOLDER CONNECTION_FILE ARGUMENTS…``: the last two go to ipykernel."""
    start = run_spare if argv[0] == "--spare" else run
    folder, connection_file, *arguments = argv[1:] if start is run_spare else argv
    put_own_package_first()
    go_to(folder)
    sys.argv[:] = ["ipykernel_launcher.py", "-f", connection_file, *arguments]
    start(adapt(json.loads(Path(connection_file).read_text())["ip"]))


if __name__ == "__main__":
    main(sys.argv[1:])
