"""Commands of ours run by a Python that has the slow packages imported already.

`WarmPopen([sys.executable, "-m", module, …])` is a `subprocess.Popen` whose process is forked, within milliseconds,
from one that holds Google's client, asyncssh, Jupyter Server and our own modules: these take one to three seconds of
CPU to import, which a suite would pay for each of a thousand commands. It is a process like any other, with its own
pid, environment, folder and streams. Where the start itself is tested, use `subprocess`.

Run as a program, this module is the process that forks: ``python warm_python.py SOCKET_FD``.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import faulthandler
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

SLOW_PACKAGES = (
    *("google.cloud.tpu_v2", "google.auth", "grpc.aio", "asyncssh", "aiohttp.web", "cryptography.x509"),
    *("tornado.web", "zmq.asyncio", "jsonschema", "jupyter_client", "jupyter_server.serverapp", "psutil"),
)
OUR_PACKAGES = ("cli", "cloud", "emulator", "fleet", "journal", "kernels", "link", "server", "setup", "ssh")
_FDS = 4  # standard input, output and error, and the pipe for the exit status
_LARGEST_REQUEST = 1 << 20


class WarmPopen(subprocess.Popen[Any]):
    """`subprocess.Popen` for ``[sys.executable, "-m", module, …]``; takes no preexec_fn, pass_fds or shell."""

    def _execute_child(self, args: list[str], executable: Any, preexec_fn: Any, *rest: Any) -> None:
        # the order of CPython's own, the same from 3.11 to 3.13
        _close_fds, _pass_fds, cwd, env, _info, _flags, _shell, *pipes = rest
        stdin, stdin_ours, stdout_ours, stdout, stderr_ours, stderr, *more = pipes
        interpreter, option, module, *argv = [os.fspath(part) for part in args]
        assert (interpreter, option) == (sys.executable, "-m"), args
        status, status_theirs = os.pipe()
        request = {
            "module": module,
            "argv": argv,
            "cwd": os.fspath(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
            "own_session": bool(more[5]),
        }
        try:
            streams = [fd if fd != -1 else own for own, fd in enumerate((stdin, stdout, stderr))]
            self.pid = _warm_python().fork(request, [*streams, status_theirs])
        finally:
            os.close(status_theirs)
        self._status = io.FileIO(status)
        self._child_created = True
        self._close_pipe_fds(stdin, stdin_ours, stdout_ours, stdout, stderr_ours, stderr)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self._ended_within(0)

    def _wait(self, timeout: float | None) -> int:
        if self._ended_within(timeout) is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        assert self.returncode is not None
        return self.returncode

    def _ended_within(self, timeout_s: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if selector.select(timeout_s):
                    # nothing comes where the process that forks was killed: its children live on, unwatched
                    self.returncode = int(self._status.read(20) or -signal.SIGKILL)
                    self._status.close()
        return self.returncode


def run_warm(command: list[str], *, timeout: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` with captured text, for the commands of `WarmPopen`."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    text_in = options.pop("input", None)
    if text_in is not None:
        pipes["stdin"] = subprocess.PIPE
    with WarmPopen(command, text=True, **{**pipes, **options}) as process:
        try:
            printed, complained = process.communicate(text_in, timeout=timeout)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(command, process.wait(), printed, complained)


class WarmPython:
    """The process that forks, as the tests hold it; it ends with the pytest process that started it."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])

    def fork(self, request: dict[str, Any], fds: list[int]) -> int:
        """The pid of a new process that runs what `request` names."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        with self._one_at_a_time:
            self._socket.sendmsg([json.dumps(request).encode()], rights)
            return int(self._socket.recv(20))


@functools.cache
def _warm_python() -> WarmPython:
    return WarmPython()


def _serve(requests: socket.socket) -> dict[str, Any]:
    """Fork one process per request; returns in each of these, with its request."""
    statuses: dict[int, int] = {}
    wake, woken = socket.socketpair()
    for end in (wake, woken):
        end.setblocking(False)
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    selector = selectors.DefaultSelector()
    selector.register(wake, selectors.EVENT_READ)
    selector.register(requests, selectors.EVENT_READ)
    while True:
        ready = [key.fileobj for key, _ in selector.select()]
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                wake.recv(4096)
            _report_ended(statuses)
        if requests not in ready:
            continue
        data, fds, _, _ = socket.recv_fds(requests, _LARGEST_REQUEST, _FDS)
        if not data:
            sys.exit()
        request: dict[str, Any] = json.loads(data)
        pid = os.fork()
        if pid:
            for fd in fds[:3]:
                os.close(fd)
            statuses[pid] = fds[3]
            requests.send(str(pid).encode())
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        selector.close()
        for end in (wake, woken, requests):
            end.close()
        for fd in (*statuses.values(), fds[3]):
            os.close(fd)
        for number, fd in enumerate(fds[:3]):
            os.dup2(fd, number)
            os.close(fd)
        return request


def _report_ended(statuses: dict[int, int]) -> None:
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with os.fdopen(statuses.pop(pid), "w") as pipe:
            pipe.write(str(os.waitstatus_to_exitcode(status)))


def _become(request: dict[str, Any]) -> str:
    """Take over the environment, folder, arguments and streams of a request; returns the module to run."""
    if request["own_session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    added = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:] = [request["cwd"], *added, *sys.path]
    _forget_another_copy()
    sys.argv = [request["module"], *request["argv"]]
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    for number, name in ((1, "stdout"), (2, "stderr")):
        raw = io.FileIO(number, "w", closefd=False)
        # Jupyter Server logs in its handler of SIGTERM. Where the signal comes in the middle of another log line, a
        # buffered stream refuses that ("reentrant call"), and the server goes on as if nobody had asked it to stop.
        unbuffered = at_once or name == "stderr"
        stream = io.TextIOWrapper(
            raw if unbuffered else io.BufferedWriter(raw),
            encoding="utf-8",
            errors="backslashreplace" if number == 2 else "strict",
            line_buffering=number == 2,
            write_through=unbuffered,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    faulthandler.enable(2)
    return str(request["module"])


def _import_ours() -> None:
    """Import our modules ahead, but not those that run on workers or that are programs."""
    import jupyter_tpu

    for package in OUR_PACKAGES:
        folder = str(Path(jupyter_tpu.__file__).parent / package)
        for module in pkgutil.walk_packages([folder], f"jupyter_tpu.{package}."):
            if "__main__" not in module.name and "on_worker" not in module.name:
                importlib.import_module(module.name)


def _forget_another_copy() -> None:
    """Where the path leads to another copy of our package, such as an old one, that one is imported."""
    folder = next((path for path in sys.path if (Path(path) / "jupyter_tpu" / "__init__.py").exists()), None)
    ours = sys.modules["jupyter_tpu"].__file__
    if folder is None or ours is None or not Path(ours).parents[1].samefile(folder):
        for name in [name for name in sys.modules if name.partition(".")[0] == "jupyter_tpu"]:
            del sys.modules[name]


def _run(module: str) -> None:
    """Run a module as the interpreter would; what it raises is the interpreter's to show."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            raise
        _leave(ended.code or 0)
    _leave(0)


def _leave(code: int) -> None:
    """End as the interpreter would, but for the half second in which it takes its modules apart one by one."""
    threading._shutdown()
    atexit._run_exitfuncs()
    with contextlib.suppress(BrokenPipeError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    del sys.path[0]  # this folder, which the commands know nothing of
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for package in SLOW_PACKAGES:
            importlib.import_module(package)
        _import_ours()
    gc.collect()
    gc.freeze()  # else each child copies all pages of memory at its first collection
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        wanted = _serve(listening)
    _run(_become(wanted))
