"""Serve the runtime metrics while a process uses the chips, as libtpu does inside the ML process.

`on_worker/emulated_tpu.py` starts this process with the folder that has the chips' files and the pid of the process
that uses the chips. This process exits when the other one writes a byte to this process's input, closes the input, or
exits. One thread waits for that. It polls only if the system can't report the exit of a process.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from concurrent import futures
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import psutil

from jupyter_tpu.emulator.access.peers import is_own_connection
from jupyter_tpu.emulator.runtime_metrics import readings
from jupyter_tpu.emulator.runtime_metrics.load import Load
from jupyter_tpu.emulator.runtime_metrics.metrics_script import read_script
from jupyter_tpu.emulator.runtime_metrics.protos import SERVICE, message_class
from jupyter_tpu.emulator.workers.chips import LOOPBACK, Chips, read_chips

# Real seconds between two checks; each bounds the delay until a change is noticed.
HOLDER_POLL_S = 1.0
SCRIPT_POLL_S = 0.1


def main(arguments: list[str]) -> int:
    """Serve until the process that uses the chips exits. `arguments` are the chips' folder and the process's pid."""
    folder, holder = Path(arguments[0]), int(arguments[1])
    is_gone = _watch(holder)
    # fork before gRPC starts threads
    if os.fork():
        return 0  # the program that uses the chips waits only for this process; the service is not its child
    chips, port = read_chips(folder)
    server = serve(chips, port, Load(holder), folder)
    _report_ready()
    wait_for_end(holder, is_gone)
    server.stop(grace=None).wait()
    return 0


def serve(chips: Chips, port: int, load: Load, folder: Path) -> grpc.Server:
    """Serve on this loopback port for the chips in a folder. Raises RuntimeError if the port is in use."""
    # so_reuseport: the emulator binds the port too, without listening (`workers.chips.ReservedPort`)
    server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 1)])
    handlers = {name: _handler(method, port) for name, method in _methods(chips, load, folder).items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_secure_port(f"{LOOPBACK}:{port}", grpc.local_server_credentials())
    server.start()
    return server


Method = Callable[[Any, Any], Any]


def _methods(chips: Chips, load: Load, folder: Path) -> dict[str, tuple[str, Method]]:
    """Return the request message and the handler of each method."""

    def get_runtime_metric(request: Any, context: Any) -> Any:
        if request.metric_name not in readings.supported(chips):
            context.abort(grpc.StatusCode.NOT_FOUND, f"Metric {request.metric_name[:200]} not found")
        script = read_script(folder)
        # wait until the client gives up or the test ends the simulated hang
        while script is not None and script.lie == "hang" and context.is_active():
            time.sleep(SCRIPT_POLL_S)
            script = read_script(folder)
        return readings.metric(request.metric_name, chips, replace(load.read(), script=script))

    return {
        "GetRuntimeMetric": ("MetricRequest", get_runtime_metric),
        "ListSupportedMetrics": (
            "ListSupportedMetricsRequest",
            lambda request, _: readings.supported_metrics(chips, request.filter),
        ),
        "GetTpuRuntimeStatus": ("GetTpuRuntimeStatusRequest", lambda *_: readings.runtime_status(chips)),
    }


def _handler(method: tuple[str, Method], port: int) -> Any:
    request, act = method
    return grpc.unary_unary_rpc_method_handler(
        _for_own_user(act, port),
        request_deserializer=message_class(request).FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )


def _for_own_user(act: Method, port: int) -> Method:
    def answer(request: Any, context: Any) -> Any:
        peer_port = context.peer().rpartition(":")[2]
        if not (peer_port.isdecimal() and is_own_connection(("127.0.0.1", int(peer_port)), ("127.0.0.1", port))):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "These metrics belong to another user.")
        return act(request, context)

    return answer


def _watch(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process exits, or None on systems without one (macOS)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def wait_for_end(holder: int, is_gone: int | None, input_fd: int = 0) -> None:
    """Wait until the process that uses the chips has exited, or until `input_fd` has input or is closed."""
    watched = [input_fd, *([] if is_gone is None else [is_gone])]
    patience = HOLDER_POLL_S if is_gone is None else None
    while not select.select(watched, [], [], patience)[0]:
        if not psutil.pid_exists(holder):
            return


def _report_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
