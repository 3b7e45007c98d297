"""Runs in namespaces of its own: an emulator, a node of each type, a holder of its chips, and the unmodified tpu-info.

tpu-info looks for chips in /sys/bus/pci, for who has them in /proc and /dev, and for metrics at localhost:8431. Here
all four are ours. Arguments: a folder, and accelerator types. Prints one JSON object: for each type what tpu-info said
while a process had the chips and the pid of that process, and what it said of the last worker when it was gone.
"""

from __future__ import annotations

import asyncio
import fcntl
import getpass
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncssh
from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2

from jupyter_tpu import accelerators

VENDOR = "0x1ae0"
# device and subsystem of the PCI functions, and functions per chip (facts of tpu-info's device.py)
PCI = {
    "v3": ("0x0027", "0x004f", 1),
    "v4": ("0x005e", "0x0000", 1),
    "v5e": ("0x0063", "0x0000", 1),
    "v6e": ("0x006f", "0x0000", 1),
}
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
TPU_INFO = Path(sys.executable).with_name("tpu-info")


def main(folder: Path, types: list[str]) -> None:
    raise_loopback()
    print(json.dumps(asyncio.run(all_answers(types, folder))))  # noqa: T201 - this is what it is for


def raise_loopback() -> None:
    """A new network namespace has a loopback that is down."""
    up, get_flags, set_flags = 1, 0x8913, 0x8914
    with socket.socket() as probe:
        name = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(probe, get_flags, name))[1]
        fcntl.ioctl(probe, set_flags, struct.pack("16sh14x", b"lo", flags | up))


async def all_answers(types: list[str], folder: Path) -> dict[str, Any]:
    key = asyncssh.generate_private_key("ssh-ed25519")
    ready = start_emulator(folder / "state", "--runtime-metrics-port", "8431")
    said = {each: await answers(each, folder / each, ready["rest"], key) for each in types}
    return {"idle": tpu_info(), **said}  # the last worker is gone, but its chips still seem to be there


def start_emulator(state_dir: Path, *options: str) -> dict[str, Any]:
    """It ends with this pid namespace."""
    argv = [sys.executable, "-m", "jupyter_tpu.emulator", "--json", "--state-dir", str(state_dir)]
    emulator = subprocess.Popen([*argv, "--time-scale", "200", *options], stdout=subprocess.PIPE, text=True)
    assert emulator.stdout is not None
    ready: dict[str, Any] = json.loads(emulator.stdout.readline())
    return ready


async def answers(accelerator_type: str, folder: Path, rest: str, key: asyncssh.SSHKey) -> dict[str, str]:
    client = tpu_v2.TpuClient(
        transport="rest", credentials=AnonymousCredentials(), client_options={"api_endpoint": rest}
    )
    kind = accelerators.accelerator(accelerator_type)
    node = make_node(client, kind, f"{getpass.getuser()}:{key.export_public_key().decode()}")
    async with await log_in(client, node.name, key) as worker:
        chips = Path((await worker.run("printf %s $EMULATED_TPU", check=True)).stdout)
        show_chips(folder, kind, chips / "dev")
        holder = await worker.create_process("EMULATED_TPU_DEV=/dev emulated-tpu hold")
        said = await holder.stdout.readline()
        # it knows only /dev/vfio in its table of chips
        owners = tpu_info("--process") if accelerator_type == "v3-8" else ""
        busy = tpu_info()
    client.delete_node(name=node.name).result(timeout=120)
    return {"busy": busy, "owners": owners, "pid": said.split()[-1]}


def make_node(
    client: tpu_v2.TpuClient, kind: accelerators.Accelerator, ssh_keys: str, node_id: str = "n"
) -> tpu_v2.Node:
    zone = accelerators.zones_for_type(kind.type)[0]
    node = tpu_v2.Node(
        accelerator_type=kind.type,
        runtime_version=accelerators.runtime_versions(kind.generation)[0],
        metadata={"ssh-keys": ssh_keys},
    )
    parent = f"projects/demo-project/locations/{zone}"
    made: tpu_v2.Node = client.create_node(parent=parent, node_id=node_id, node=node).result(timeout=120)
    return made


async def log_in(client: tpu_v2.TpuClient, name: str, key: asyncssh.SSHKey) -> asyncssh.SSHClientConnection:
    (worker,) = client.get_guest_attributes(tpu_v2.GetGuestAttributesRequest(name=name)).guest_attributes
    port = next(item.value for item in worker.query_value.items if item.key == "ssh-port")
    return await asyncssh.connect(
        "127.0.0.1", int(port), known_hosts=None, client_keys=[key], config=None, username=getpass.getuser()
    )


def show_chips(folder: Path, kind: accelerators.Accelerator, device_files: Path) -> None:
    """Put the chips where the kernel shows real ones."""
    device, subsystem, functions = PCI[kind.generation]
    groups = iter(range(kind.chips_per_worker * functions))
    for chip in range(kind.chips_per_worker):
        for function in range(functions):
            place = folder / "pci" / "devices" / f"0000:00:{4 + chip:02x}.{function}"
            place.mkdir(parents=True)
            for name, value in (("vendor", VENDOR), ("device", device), ("subsystem_device", subsystem)):
                (place / name).write_text(f"{value}\n")
            (place / "iommu_group").symlink_to(f"../../groups/{next(groups)}")
    mount("--bind", folder / "pci", "/sys/bus/pci")
    replace_dev(folder / "dev", device_files)


def replace_dev(folder: Path, device_files: Path) -> None:
    """A /dev with the devices that programs need, and the chips of the worker."""
    folder.mkdir()
    for name in DEVICES:
        (folder / name).touch()
        mount("--bind", Path("/dev") / name, folder / name)
    for made in [device_files, *device_files.rglob("*")]:
        shown = folder / made.relative_to(device_files)
        if made.is_dir():
            shown.mkdir(exist_ok=True)
        else:
            shown.touch()
            mount("--bind", made, shown)
    mount("--rbind", folder, "/dev")


def mount(how: str, source: Path, target: Path | str) -> None:
    subprocess.run(["mount", how, str(source), str(target)], check=True)


def tpu_info(*options: str) -> str:
    environment = {**os.environ, "COLUMNS": "140", "TPU_SKIP_MDS_QUERY": "1", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run([TPU_INFO, *options], capture_output=True, text=True, env=environment, check=False)
    return done.stdout + done.stderr


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
