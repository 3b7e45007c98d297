"""Start ipykernel with output capture. The script runs in the kernel's process, with any ipykernel version.

`output_capture` changes ipykernel so that no message is lost when the agent crashes. If the installed version can't be
changed this way, the kernel starts unchanged.
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
    """Import jupyter_tpu from the agent's archive, without letting the script's folder shadow user modules."""
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [str(ARCHIVE), *(entry for entry in sys.path if entry != here)]


def adapt(socket_prefix: str) -> OutputCapture | None:
    """Install the output capture in ipykernel and return it; if unsupported, log a warning and return None.

    Args:
        socket_prefix: path of the kernel's sockets without the port; the ``ip`` in the connection file.
    """
    try:
        from ipykernel.iostream import IOPubThread, OutStream
        from ipykernel.kernelapp import IPKernelApp

        from jupyter_tpu.agent.kernels import output_capture

        capture = output_capture.OutputCapture(f"{socket_prefix}-pipe")
        output_capture.adapt_pipe(IOPubThread, capture)
        output_capture.adapt_sockets(IPKernelApp, capture)
        output_capture.adapt_publisher(IOPubThread, capture)
        output_capture.adapt_text(OutStream, capture)
    except (ImportError, AttributeError) as error:
        warnings.warn(f"output may be lost when the agent dies: {error}", stacklevel=1)
        return None
    return capture


def forget_own_package() -> None:
    """Make later imports of jupyter_tpu prefer a version installed by the user."""
    # Move the archive to the end of the path instead of removing it: notebooks can then import the worker's part of
    # jupyter_tpu without installing it.
    sys.path.remove(str(ARCHIVE))
    sys.path.append(str(ARCHIVE))
    for name in [name for name in sys.modules if name.partition(".")[0] == "jupyter_tpu"]:
        del sys.modules[name]


def go_to(folder: str) -> None:
    """Change to the requested folder, or to the home folder if that folder doesn't exist on the worker."""
    try:
        os.chdir(folder)
    except OSError:
        os.chdir(Path.home())


def run_spare(capture: OutputCapture | None) -> None:
    """Start a pre-warmed kernel, which waits until the agent needs it; this requires the output capture."""
    if capture is None:
        sys.exit("this version of ipykernel can't be pre-warmed")
    from ipykernel.kernelapp import IPKernelApp

    from jupyter_tpu.agent.kernels.prewarmed_kernel import SpareKernel

    forget_own_package()
    app: Any = IPKernelApp.instance()
    app.initialize()
    SpareKernel(app, capture, go_to).wait()
    app.start()


def run(capture: OutputCapture | None) -> None:  # noqa: ARG001 - ipykernel refers to it
    """Start the kernel and return when it exits."""
    forget_own_package()
    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance()


def run_engine(folder: str, *arguments: str) -> None:
    """Run a kernel's engine on a worker other than worker 0 until the engine exits.

    Args:
        folder: the working folder.
        arguments: arguments of ipyparallel, then ``--``, then those that the kernel passes to ipykernel.
    """
    put_own_package_first()
    go_to(folder)
    forget_own_package()
    from ipykernel.kernelapp import IPKernelApp
    from ipyparallel.engine.app import IPEngine
    from IPython.paths import get_ipython_dir

    end = arguments.index("--")
    # Let ipykernel parse its own arguments, because ipyparallel doesn't know its aliases and flags.
    app: Any = IPKernelApp
    kernel = app()
    kernel.parse_command_line(list(arguments[end + 1 :]))

    class Engine(IPEngine):  # type: ignore[misc]
        def parse_command_line(self, argv: Any = None) -> None:
            super().parse_command_line(argv)
            self.cli_config.merge(kernel.cli_config)  # what is set here takes precedence over configuration files
            self.update_config(self.cli_config)

        async def complete_registration(self, *registration: Any) -> None:
            await super().complete_registration(*registration)
            exit_unless_joined()

    sys.argv[:] = ["ipengine", *arguments[:end]]
    # The engine has a profile folder of its own, but reads the same configuration files as the kernel.
    profile = Path(get_ipython_dir()) / "profile_default"
    Engine.launch_instance(config_file_paths=[str(profile)], config_files=["ipython_kernel_config.py"])


def exit_unless_joined() -> None:
    """Exit if the extension could not be loaded: worker 0 would wait for this engine. IPython has logged the reason."""
    slices = sys.modules.get("jupyter_tpu.notebook.slices")
    if slices is None or slices.current() is None:
        os._exit(1)


def main(argv: list[str]) -> None:
    """Start a kernel, or an engine (another worker's part of a kernel).

    Args:
        argv: ``[--spare] FOLDER CONNECTION_FILE ARGUMENTS…`` for a kernel, where ARGUMENTS are passed to ipykernel;
            ``--engine FOLDER ARGUMENTS…`` for an engine, see `run_engine`.
    """
    if argv[0] == "--engine":
        return run_engine(*argv[1:])
    start = run_spare if argv[0] == "--spare" else run
    folder, connection_file, *arguments = argv[1:] if start is run_spare else argv
    put_own_package_first()
    go_to(folder)
    sys.argv[:] = ["ipykernel_launcher.py", "-f", connection_file, *arguments]
    return start(adapt(json.loads(Path(connection_file).read_text())["ip"]))


if __name__ == "__main__":
    main(sys.argv[1:])
