"""Run a kernel on a worker as a program, for front ends that run a kernelspec's argv themselves, such as VS Code.

    python -m jupyter_tpu.kernels.launcher --node projects/…/nodes/my-node -f connection.json

The launcher immediately opens the ports in the connection file, because some clients test whether they are open. It
exits when the kernel exits. It shuts down the kernel on SIGTERM, or when the launcher's parent process exits. If the
launcher is killed by SIGKILL, the kernel keeps running until the next launcher with the same connection file replaces
it, the node is stopped, or the kernel has been idle for 12 hours without a launcher (``--end-alone-after SECONDS`` or
JUPYTER_TPU_END_ALONE_AFTER_S; 0 for no limit). The limit is long because the node can't distinguish a killed launcher
from a computer that sleeps overnight.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import json
import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import zmq

from jupyter_tpu.cloud.settings import settings_from_environment
from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.kernels.connections.pool import LinkPool
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.kernels.environments.environment import KernelEnvironment
from jupyter_tpu.kernels.kernel_host import KernelHost
from jupyter_tpu.kernels.launch import Launch, forwarded_names, kernel_env
from jupyter_tpu.kernels.messages.local_ports import addresses_of
from jupyter_tpu.kernels.messages.zmq_bridge import Secrets
from jupyter_tpu.models import NodeName

_END_ALONE_AFTER_S = 12 * 3600.0  # longer than a night, see above
_GRACE_S = 3  # delay between SIGTERM and SIGKILL to the kernel
_LEAVE_S = 30  # enough time for a start in progress to finish on a busy node
_PARENT_CHECK_S = 2  # poll, because no notification of a parent's exit works on all systems


def main(argv: Sequence[str] | None = None) -> int:
    """Run a kernel until it exits; return its exit code, or 1 if it could not be started."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    # Front ends append ipykernel's arguments to the argv of the kernelspec.
    options, extra_arguments = _parser().parse_known_args(argv)
    try:
        return asyncio.run(_Launcher(options, extra_arguments).run())
    except TpuError as error:
        _report(str(error))
        if error.raw and error.raw not in str(error):
            _report(error.raw)
        return 1


class _Launcher:
    """Runs one kernel, from parsing the command line to shutdown."""

    def __init__(self, options: argparse.Namespace, extra_arguments: Sequence[str]) -> None:
        connection = _read_connection_file(options.connection_file)
        self._end_requested = asyncio.Event()
        self._pool = LinkPool()
        self._launch = _launch(options, extra_arguments, connection)
        key = _worker_key(options)
        environment = KernelEnvironment(key, options.environment)
        addresses = addresses_of(connection)
        self._host = KernelHost(
            key,
            self._pool,
            addresses,
            _secrets(connection),
            environment=environment,
            workers=options.workers,
            sends_costs=True,
        )
        self._interrupts: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Run the kernel and return its exit code, or 0 if this launcher was asked to exit."""
        loop = asyncio.get_running_loop()
        # SIGINT interrupts the cell, as for a local kernel; only SIGTERM stops the launcher.
        loop.add_signal_handler(signal.SIGTERM, self._end_requested.set)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        end_request = asyncio.create_task(self._wait_for_end_request())
        try:
            return await self._run_kernel(end_request)
        except zmq.ZMQError as error:
            raise BadInput(Text("The ports of the connection file cannot be opened: {error}.", error=error)) from error
        finally:
            end_request.cancel()
            self._pool.close()

    async def _run_kernel(self, end_request: asyncio.Task[None]) -> int:
        try:
            # Both phases end early on SIGTERM or if the parent exits, and `_leave` cleans up.
            starting = asyncio.create_task(self._host.start(self._launch, _show))
            if not await _first(starting, end_request):
                return 0
            waiting = asyncio.create_task(self._host.kernel.wait())
            if not await _first(waiting, end_request):
                await self._end_kernel()
                return 0
            return self._outcome()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        """Shut down the kernel, unless the worker is unreachable. Wait for a start in progress first."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await self._host.give_up()

    async def _end_kernel(self) -> None:
        kernel = self._host.kernel
        await kernel.terminate()
        try:
            async with asyncio.timeout(_GRACE_S):
                await kernel.wait()
        except TimeoutError:
            await kernel.kill()

    def _outcome(self) -> int:
        kernel = self._host.kernel
        assert kernel.exit_code is not None
        # An exit status can't be negative, so use 128 + the signal, as in a shell.
        return kernel.exit_code if kernel.exit_code >= 0 else 128 - kernel.exit_code

    def _interrupt(self) -> None:
        task = asyncio.create_task(self._try_to_interrupt())
        self._interrupts.add(task)
        task.add_done_callback(self._interrupts.discard)

    async def _try_to_interrupt(self) -> None:
        try:
            if self._host.is_started:
                await self._host.kernel.interrupt()
        except TpuError as error:
            _report(str(error))

    async def _wait_for_end_request(self) -> None:
        """Wait for SIGTERM or for the parent process to exit; then the launcher must shut down the kernel."""
        parent = os.getppid()
        while os.getppid() == parent:
            try:
                async with asyncio.timeout(_PARENT_CHECK_S):
                    await self._end_requested.wait()
            except TimeoutError:
                continue
            return


async def _first(task: asyncio.Task[Any], other: asyncio.Task[Any]) -> bool:
    """Return whether `task` finished first. If not, cancel it. Re-raises any exception from `task`."""
    await asyncio.wait({task, other}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        return False
    await task
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m jupyter_tpu.kernels.launcher",
        description=__doc__,
        epilog="All other arguments are passed to ipykernel.",
        allow_abbrev=False,
    )
    parser.add_argument("--node", required=True, help="projects/PROJECT/locations/ZONE/nodes/NODE")
    parser.add_argument("--endpoint", default=settings_from_environment().endpoint, help="HOST:PORT of an emulator")
    parser.add_argument("--worker-id", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="run the kernel on this many workers, from worker 0")
    parser.add_argument("--python", default="", help="Python on the worker")
    parser.add_argument(
        "--environment", default="", help="run the kernel in this framework's environment on the worker"
    )
    parser.add_argument("--cwd", default="", help="folder on the worker")
    parser.add_argument("--proxy-command", default="", help="command used to connect, as in ssh's ProxyCommand")
    parser.add_argument("--ssh-user", default="")
    parser.add_argument(
        "--forward-env",
        metavar="NAME",
        action="append",
        default=[],
        help="environment variable to pass to the kernel, in addition to JUPYTER_TPU_FORWARD_ENV; can be repeated",
    )
    parser.add_argument(
        "--end-alone-after",
        type=float,
        metavar="SECONDS",
        default=os.environ.get("JUPYTER_TPU_END_ALONE_AFTER_S", _END_ALONE_AFTER_S),
        help="shut down the kernel after this many idle seconds without this launcher; 0 for never",
    )
    parser.add_argument("-f", "--connection-file", required=True, type=Path)
    return parser


def _worker_key(options: argparse.Namespace) -> WorkerKey:
    return WorkerKey(
        node=NodeName.parse(options.node),
        endpoint=options.endpoint,
        worker_id=options.worker_id,
        python=options.python,
        proxy_command=options.proxy_command,
        ssh_user=options.ssh_user,
    )


def _launch(options: argparse.Namespace, extra_arguments: Sequence[str], connection: Mapping[str, Any]) -> Launch:
    return Launch(
        kernel_id=_kernel_id(options.connection_file, str(connection.get("key", ""))),
        replaces=True,
        key=str(connection.get("key", "")),
        signature_scheme=str(connection.get("signature_scheme", "hmac-sha256")),
        env=kernel_env(
            options.node.rpartition("/")[2], os.environ, [*forwarded_names(os.environ), *options.forward_env]
        ),
        cwd=options.cwd,
        folder=Path.cwd(),
        extra_arguments=(*extra_arguments,),
        workers=options.workers,
        ends_alone_after_s=options.end_alone_after if options.end_alone_after > 0 else None,
    )


def _kernel_id(connection_file: Path, key: str) -> str:
    """Return a kernel id that depends only on the connection file, so each start with the same file has the same id.

    Front ends keep the file across restarts, and may kill the launcher before it can shut down its kernel. The next
    launcher finds that kernel by this id.
    """
    place = f"{socket.gethostname()}:{connection_file.absolute()}"
    return str(uuid.UUID(bytes=hmac.digest(key.encode(), place.encode(), "sha256")[:16]))


def _secrets(connection: Mapping[str, Any]) -> Secrets:
    public, secret = connection.get("curve_publickey"), connection.get("curve_secretkey")
    return Secrets(
        key=str(connection.get("key", "")).encode(),
        signature_scheme=str(connection.get("signature_scheme", "hmac-sha256")),
        curve=(public.encode(), secret.encode()) if public and secret else None,
    )


def _read_connection_file(path: Path) -> dict[str, Any]:
    try:
        connection = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(Text("The connection file {path} cannot be read.", path=path), raw=str(error)) from error
    if not isinstance(connection, dict):
        raise BadInput(Text("The connection file {path} is not a JSON object.", path=path))
    return connection


def _show(progress: Mapping[str, Any]) -> None:
    _report(str(progress["message"]))


def _report(text: str) -> None:
    with suppress(BrokenPipeError):  # the parent may have exited, but the kernel must still be shut down
        sys.stderr.write(f"jupyter-tpu: {text}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
