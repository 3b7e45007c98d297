"""Acquire the chips of an emulated TPU worker, as libtpu acquires real ones: one process at a time, until it exits.

    import emulated_tpu
    emulated_tpu.take()            # raises ChipsInUse, with libtpu's text, if another process uses them

    emulated-tpu run python train.py    # the same for a program that does not call take()
    emulated-tpu hold                   # acquire the chips until standard input ends or Ctrl-C is pressed
    emulated-tpu who                    # show the process that uses the chips

On a real node, libtpu acquires the chips when JAX or PyTorch starts. The emulator doesn't load libtpu: for JAX,
`jax_plugins/emulated_chips.py` acquires the chips; other programs must call `take`. While a process uses the chips, the
worker's runtime metrics are served as libtpu would serve them.
"""

from __future__ import annotations

import argparse
import atexit
import fcntl
import json
import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "EMULATED_TPU"
SERVICE_PATIENCE_S = 20.0  # gRPC takes seconds to import on a loaded machine
_SERVICE_NEEDS = ("HOME", "PATH", "LANG", "TMPDIR", "JUPYTER_TPU_WORKER_UID")


class ChipsInUse(RuntimeError):
    """The error raised if another process uses the chips. It has libtpu's message."""


class NoChips(RuntimeError):
    """The error raised if this process does not run on an emulated worker."""


class Taken:
    """The acquired chips; in use until `release` or the exit of the process."""

    def __init__(self, lock: int, devices: list[int], service: _Service | None) -> None:
        self.pid = os.getpid()
        self._descriptors = [lock, *devices]
        self._service = service

    def release(self) -> None:
        """Release the chips, unless they are already released or this is a fork of the process that acquired them."""
        global _taken
        # a fork inherits this object, but the chips belong to the original process
        if self.pid != os.getpid() or not self._descriptors:
            return
        if self._service is not None:
            self._service.end()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        _taken = None

    def pass_on(self) -> None:
        """Keep the chips and libtpu's lock when this process calls exec."""
        for descriptor in self._descriptors:
            os.set_inheritable(descriptor, True)
        if self._service is not None:
            self._service.pass_on()

    def __enter__(self) -> Taken:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


_taken: Taken | None = None


def take() -> Taken:
    """Acquire all chips of this worker for this process; a second call returns the same object.

    Raises:
        ChipsInUse: another process uses the chips.
        NoChips: this is not an emulated worker.
    """
    global _taken
    if _taken is not None and _taken.pid == os.getpid():
        return _taken
    folder = _folder()
    lock = _lock(folder)
    # keep the device files open, because they identify the owner of the chips
    devices = [os.open(path, os.O_RDWR) for path in device_files(folder)]
    _taken = Taken(lock, devices, _Service.start(folder))
    atexit.register(_taken.release)
    return _taken


def holder() -> int | None:
    """Return the process that uses this worker's chips, or None if this user can see no such process."""
    return _find_holder(_folder())


def device_files(folder: Path) -> list[Path]:
    """Return the device files, sorted by number: ``…/dev/accel0`` up to v4, ``…/dev/vfio/0`` from v5e on."""
    names = json.loads((folder / "chips.json").read_text(encoding="utf-8"))["device_files"]
    root = Path(os.environ.get("EMULATED_TPU_DEV") or folder / "dev")
    return [root / name for name in names]


def _folder() -> Path:
    folder = Path(os.environ.get(FOLDER_VARIABLE, ""))
    if not (folder / "chips.json").is_file():
        raise NoChips("TPU initialization failed: No jellyfish device found.")
    return folder


def _lock(folder: Path) -> int:
    """Acquire libtpu's own lock: lockf on a file, released on exit (openxla, tpu_initializer_helper.cc)."""
    path = folder / "libtpu_lockfile"
    lock = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise ChipsInUse(_refusal(_find_holder(folder), path)) from error
    return lock


def _refusal(pid: int | None, lock: Path) -> str:
    if pid is None:
        return f'ABORTED: Internal error when accessing libtpu multi-process lockfile. Run "$ sudo rm {lock}".'
    return (
        f"ABORTED: The TPU is already in use by process with pid {pid}. "
        "Not attempting to load libtpu.so in this process."
    )


def _find_holder(folder: Path) -> int | None:
    """Return the pid of the process that has a device file open. Like libtpu, this searches /proc."""
    wanted = {os.path.realpath(path) for path in device_files(folder)}
    found = [int(link.parts[2]) for link in Path("/proc").glob("[0-9]*/fd/*") if _target(link) in wanted]
    return min(found, default=None)  # child processes that inherited the files are younger than their parent


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # the process has exited or belongs to another user
        return ""


class _Service:
    """The process that serves the runtime metrics; it exits when the process that uses the chips exits."""

    def __init__(self, end: int) -> None:
        self._end = end

    @staticmethod
    def start(folder: Path) -> _Service | None:
        """Start the service, or return None if this fails (see its log). The chips remain acquired in either case."""
        how = json.loads((folder / "chips.json").read_text(encoding="utf-8"))["service"]
        # don't pass the worker's PYTHONPATH to the service, which runs in the emulator's own Python
        environment = {name: os.environ[name] for name in _SERVICE_NEEDS if name in os.environ}
        ours, theirs = os.pipe()
        with (folder / "runtime_metrics.log").open("w") as log:
            process = subprocess.Popen(
                [*how["argv"], str(folder), str(os.getpid())],
                stdin=ours,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**environment, "PYTHONPATH": how["path"]},
                start_new_session=True,
            )
        os.close(ours)
        is_ready = _wait_until_ready(process)
        process.wait()  # the service is a child of `process`, so that the program has no child that it did not start
        if is_ready:
            return _Service(theirs)
        os.close(theirs)
        return None

    def end(self) -> None:
        """Stop the service."""
        with suppress(OSError):
            os.write(self._end, b"\n")  # a forked process may still have the pipe open
        os.close(self._end)

    def pass_on(self) -> None:
        """Keep the service running when this process calls exec."""
        os.set_inheritable(self._end, True)


def _wait_until_ready(process: subprocess.Popen[bytes]) -> bool:
    assert process.stdout is not None, "it was started with a pipe"
    with process.stdout as output:
        # the program must not hang if the service hangs
        readable, _, _ = select.select([output], [], [], SERVICE_PATIENCE_S)
        return bool(readable) and output.readline() == b"ready\n"


# -- the command


def main(arguments: list[str] | None = None) -> int:
    """Run the command ``emulated-tpu``; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.act(options)
    except (ChipsInUse, NoChips) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="emulated-tpu", description="The chips of this emulated TPU worker.")
    commands = parser.add_subparsers(required=True, metavar="command")
    for name, act, summary in (
        ("hold", _hold, "take the chips until the input ends"),
        ("run", _run, "take the chips for a program that does not do so itself"),
        ("who", _who, "show the process that uses the chips"),
    ):
        command = commands.add_parser(name, help=summary, description=summary)
        command.set_defaults(act=act)
        if name == "run":
            command.add_argument("argv", nargs=argparse.REMAINDER, help="the program and its arguments")
    return parser


def _hold(_: Any) -> int:
    with take():
        sys.stdout.write(f"holding the TPU as process {os.getpid()}\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            sys.stdin.read()
    return 0


def _run(options: Any) -> int:
    argv: list[str] = options.argv
    if not argv:
        sys.stderr.write("emulated-tpu run: name a program\n")
        return 2
    # the lock survives exec, because the program runs as this process
    take().pass_on()
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"emulated-tpu run: {argv[0]}: {error.strerror}\n")
        return 127


def _who(_: Any) -> int:
    pid = holder()
    sys.stdout.write("free\n" if pid is None else f"{pid}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
