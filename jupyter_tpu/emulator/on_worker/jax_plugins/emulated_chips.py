"""Give plain JAX the devices of an emulated worker: JAX looks for plugins in this namespace package when first used.

As on a TPU VM, the first use acquires the chips, and a second process gets an error. JAX calls `initialize` once,
before it initialises any device. JAX computes on CPU devices instead of chips; with ``JAX_PLATFORMS=cpu``, no chips are
acquired.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
from pathlib import Path
from typing import Any

import emulated_tpu  # type: ignore[import-not-found]  # the worker's Python path begins in the folder above

PRIORITY = 300
"""The same priority as JAX's own TPU backend."""


def initialize() -> None:
    """Register a backend ``tpu``, as JAX does when it finds libtpu."""
    folder = Path(os.environ.get(emulated_tpu.FOLDER_VARIABLE, ""))
    if not (folder / "chips.json").is_file():
        return
    config: Any = importlib.import_module("jax._src.config")
    xla_bridge: Any = importlib.import_module("jax._src.xla_bridge")
    chosen = config.jax_platforms.value
    if chosen and "tpu" not in chosen.split(","):
        return
    if not chosen:
        # like jax/_src/cloud_tpu_init.py on a TPU VM: a TPU in use then causes an error instead of a fallback
        config.update("jax_platforms", "tpu,cpu")
    if not _is_counted(config):
        _count_devices(config, _devices(folder))
    # use one client for both names, because they are names of the same devices
    client = functools.cache(xla_bridge.make_cpu_client)
    xla_bridge.register_backend_factory("cpu", client, priority=0, fail_quietly=False)
    xla_bridge.register_backend_factory("tpu", lambda: _taken(client), priority=PRIORITY, fail_quietly=False)


def _taken(client: Any) -> Any:
    emulated_tpu.take()
    return client()


def _is_counted(config: Any) -> bool:
    """Return whether the user has requested a specific number of devices."""
    flags = os.environ.get("XLA_FLAGS", "")
    return "xla_force_host_platform_device_count" in flags or getattr(config.config, "jax_num_cpu_devices", -1) >= 0


def _count_devices(config: Any, count: int) -> None:
    try:
        config.update("jax_num_cpu_devices", count)
    except AttributeError:  # JAX before 0.4.38 needs this
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={count}".strip()


def _devices(folder: Path) -> int:
    """Return the number of the worker's own devices; on a slice, each process sees only its worker's devices."""
    chips = json.loads((folder / "chips.json").read_text(encoding="utf-8"))["chips"]
    return int(chips["count"]) * int(chips["devices_per_chip"])
