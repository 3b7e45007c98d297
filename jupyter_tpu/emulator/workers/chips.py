"""The chips of an emulated worker: device files, libtpu's lock, and the port for runtime metrics.

Only the lock shows whether a process uses the chips. The worker's own processes run `on_worker/emulated_tpu.py` to
acquire the chips.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from jupyter_tpu import accelerators
from jupyter_tpu.emulator import on_worker
from jupyter_tpu.emulator.resources.behaviours import assumed, documented, recorded

LOOPBACK = "127.0.0.1"
GIB = 2**30
_PACKAGE_ROOT = Path(__file__).parents[3]  # the folder that `import jupyter_tpu` needs on the path


@dataclass(frozen=True, slots=True, kw_only=True)
class Chips:
    """The chips of one worker.

    Attributes:
        first_chip: number of the worker's first chip on the node; device ids are numbered across all workers.
        devices_per_chip: number of JAX devices per chip: TensorCores for v2 and v3, the chip itself for all others.
        hbm_bytes_per_device: memory of each JAX device in bytes.
    """

    accelerator_type: str
    generation: str
    worker_id: int
    hostname: str
    first_chip: int
    count: int
    devices_per_chip: int
    hbm_bytes_per_device: int

    @property
    def device_count(self) -> int:
        """The number of the worker's devices."""
        return self.count * self.devices_per_chip

    @property
    def first_device(self) -> int:
        """The number of the worker's first device on the node."""
        return self.first_chip * self.devices_per_chip


def chips_of(accelerator_type: str, worker_id: int, hostname: str) -> Chips:
    """Return the chips of a worker, as described in the catalogue."""
    kind = accelerators.accelerator(accelerator_type)
    return Chips(
        accelerator_type=accelerator_type,
        generation=kind.generation,
        worker_id=worker_id,
        hostname=hostname,
        first_chip=worker_id * kind.chips_per_worker,
        count=kind.chips_per_worker,
        devices_per_chip=kind.jax_devices // kind.chips,
        # the catalogue has the total memory of all chips; v2 and v3 split a chip into two devices
        hbm_bytes_per_device=kind.hbm_gib_total * GIB // kind.jax_devices,
    )


def read_chips(folder: Path) -> tuple[Chips, int]:
    """Read the file written by `write_chips`: the chips and the port of their runtime metrics."""
    text = json.loads((folder / "chips.json").read_text(encoding="utf-8"))
    return Chips(**text["chips"]), int(text["port"])


@documented(
    "device-files",
    "Chips are /dev/accel0… up to v4, and /dev/vfio/0… from v5e on. On an emulated worker, these are regular files.",
    source="tpu-info 0.14.2, tpu_info/device.py",
)
def device_files(chips: Chips) -> list[str]:
    """Return the names of the device files, relative to the folder that emulates /dev."""
    pattern = accelerators.generation_facts(chips.generation).device_files.removeprefix("/dev/")
    return [pattern.replace("*", str(number)) for number in range(chips.count)]


@recorded(
    "chips-in-use",
    "Only one process at a time can use a worker's chips. The process locks them with lockf on a file, "
    "and the lock is released when the process exits. A second process is refused with libtpu's text, "
    "which includes the pid of the first process.",
    source="openxla xla/tsl tpu_initializer_helper.cc; libtpu 0.0.42 in our own trials",
)
@documented(
    "jax-takes-the-chips",
    "JAX on a worker sees as many devices as the worker's type has, and acquires the chips when it first uses "
    "them. A second process fails to initialize the tpu backend, with libtpu's text. With JAX_PLATFORMS=cpu, "
    "JAX acquires no chips.",
    source="jax 0.10.2, jax/_src/cloud_tpu_init.py (jax_platforms is tpu,cpu on a TPU VM) and xla_bridge.py",
)
@assumed(
    "jax-devices-of-the-cpu",
    "CPU devices stand in for the chips: their platform and kind are cpu, and jax.devices('cpu') returns the same "
    "devices. On a slice, a process sees only the devices of its own worker until it has joined the others.",
)
@assumed(
    "chips-are-asked-for",
    "On a real node, a program acquires the chips when it loads libtpu. In the emulator, programs of frameworks"
    " other than JAX acquire them only with %tpu_init, emulated_tpu.take() or emulated-tpu run. Device files "
    "and the lock belong to the worker, not to the machine.",
)
def write_chips(folder: Path, chips: Chips, port: int) -> dict[str, str]:
    """Write a worker's chips to its folder; return the environment variables with which its processes find them.

    Existing device files and locks are kept: workers' processes survive a crash of the emulator and may still use them.
    """
    names = device_files(chips)
    for name in names:
        path = folder / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # don't replace an existing file, because a process may have it open
        path.touch(mode=0o600)
    # a JSON file, because `emulated_tpu` runs without this package; all processes of the worker read it
    described = {"chips": asdict(chips), "port": port, "device_files": names, "service": _service()}
    (folder / "chips.json").write_text(json.dumps(described, indent=1), encoding="utf-8")
    return {
        "EMULATED_TPU": str(folder),
        "JUPYTER_TPU_DEVICES": str(folder / "dev"),
        "JUPYTER_TPU_LOCK_FILE": str(folder / "libtpu_lockfile"),
        "PYTHONPATH": str(on_worker.FOLDER),
        "TPU_RUNTIME_METRICS_PORTS": str(port),
    }


def _service() -> Mapping[str, object]:
    """Return the command that starts the metrics service of a process that uses the chips.

    The command uses the emulator's own Python, which has gRPC.
    """
    argv = [sys.executable, "-P", "-m", "jupyter_tpu.emulator.runtime_metrics.service"]
    return {"argv": argv, "path": str(_PACKAGE_ROOT)}


class ReservedPort:
    """A loopback port that is reserved but not listening: connections are refused, as on an idle TPU VM.

    Only processes of the same user that set SO_REUSEPORT, as gRPC's servers do, can also listen on the port.
    """

    def __init__(self, number: int, *, is_served: bool = False) -> None:
        """Reserve a port; 0 means any free one.

        `is_served` is true if a process is already listening on the port, because it acquired the chips under an
        earlier emulator.

        Raises:
            OSError: the port is in use.
        """
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(is_served))
            self._socket.bind((LOOPBACK, number))
        except OSError:
            self._socket.close()
            raise
        # set the option only after binding: otherwise two emulators could get the same port
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)

    @property
    def number(self) -> int:
        """The number of the reserved port."""
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Release the port."""
        self._socket.close()


def reserve_port(folder: Path, first_choice: int = 0) -> ReservedPort:
    """Reserve a port for the runtime metrics of the chips in a folder.

    Returns the last used port if it is free, else `first_choice`, else any free port. Readers of the metrics can thus
    use the same port after a restart.

    Raises:
        OSError: no loopback port is free.
    """
    kept = folder / "port"
    noted = int(kept.read_text(encoding="ascii")) if kept.exists() else 0
    port = _first_free(noted, first_choice, is_served=is_in_use(folder))
    folder.mkdir(parents=True, exist_ok=True)
    kept.write_text(str(port.number), encoding="ascii")
    return port


def _first_free(noted: int, first_choice: int, *, is_served: bool) -> ReservedPort:
    for number in filter(None, (noted, first_choice)):
        with contextlib.suppress(OSError):
            return ReservedPort(number, is_served=is_served and number == noted)
    return ReservedPort(0)


def is_in_use(folder: Path) -> bool:
    """Return whether a process uses the chips, without acquiring the lock."""
    try:
        lock = os.open(folder / "libtpu_lockfile", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        # test without taking the lock, so that a process that starts at the same time can take it
        os.lockf(lock, os.F_TEST, 0)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False
