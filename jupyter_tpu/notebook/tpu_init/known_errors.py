"""A table of messages from frameworks and libtpu when they can't use the chips, with meanings and fixes. Pure.

The messages were recorded with JAX 0.10.2 and libtpu 0.0.42, torch_xla 2.9.0, torch_tpu 0.2.0 and TensorFlow 2.21;
older messages are from issue reports. ``{framework}`` stands for the framework's usual name, ``{install}`` for the
command that installs it with the matching libtpu, ``{runtime_versions}`` for the versions that fit the node's type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from jupyter_tpu.errors import Text

RESTART = Text("Restart the kernel and run %tpu_init before anything else that uses the accelerator.")
REINSTALL = Text("Run `{install}` to install matching versions, then restart the kernel.")
NO_CHIP_FIX = Text(
    "If the node is under maintenance, wait a few minutes and try again. If its runtime version is "
    "unsuitable, recreate the node with {runtime_versions}."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownError:
    """One known message.

    Attributes:
        name: a stable identifier.
        text: a regular expression that matches the message.
        means: the cause.
        fix: what to do.
        is_busy: whether another process uses the chips.
        is_elsewhere: whether running on a machine that is not a TPU node is enough to cause the message.
        is_harmless: whether the message is only a warning and the framework starts.
    """

    name: str
    text: str
    means: Text
    fix: Text
    is_busy: bool = False
    is_elsewhere: bool = False
    is_harmless: bool = False


KNOWN_ERRORS: tuple[KnownError, ...] = (
    # Another process uses the chips. `diagnosis` adds that process to the first two errors.
    KnownError(
        name="held",
        text=r"already in use by process with pid (?P<pid>\d+)",
        means=Text("The TPU is in use by {holder}."),
        fix=Text(""),
        is_busy=True,
    ),
    KnownError(
        name="locked",
        text=r"multi-process lockfile",
        means=Text("libtpu's lock file {lock_file} is held by another process."),
        fix=Text(""),
        is_busy=True,
    ),
    KnownError(
        name="held-by-somebody",
        text=r"already in use by another process",
        means=Text("The TPU is in use by another process, probably another user's on this machine."),
        fix=Text(
            "To find the process, run `!sudo lsof -w {devices}/accel* {devices}/vfio/* {lock_file}`. The process "
            "must exit or release the chips before %tpu_init can use them."
        ),
        is_busy=True,
    ),
    # The libraries are missing or incompatible.
    KnownError(
        name="shadowed-libtpu",
        text=r"module 'libtpu' has no attribute 'get_library_path'",
        means=Text(
            "Two packages installed a libtpu in this Python, and the older one, from tensorflow-tpu, hides JAX's."
        ),
        fix=Text(
            "Use a separate environment for each framework. Or run `%pip uninstall -y tensorflow-tpu libtpu`, "
            "then `{install}`, then restart the kernel."
        ),
    ),
    KnownError(
        name="libtpu-newer",
        text=r"PJRT_Plugin_Attributes_Args size|Mismatched PJRT plugin",
        means=Text("The versions of {framework} and libtpu are incompatible: one is much newer than the other."),
        fix=REINSTALL,
    ),
    KnownError(
        name="parts-differ",
        text=r"incompatible with jax|jaxlib version .* newer than",
        means=Text("The versions of jax and jaxlib are incompatible."),
        fix=REINSTALL,
    ),
    KnownError(
        name="chip-without-libtpu",
        text=r"A Google TPU may be present .*Falling back to (?P<platform>\w+)",
        means=Text("JAX sees a TPU chip, but its TPU library (libtpu) is missing, so it fell back to the CPU."),
        fix=Text("Run `{install}` to install the library, then restart the kernel."),
    ),
    KnownError(
        name="libtpu-missing",
        text=r"Failed to open libtpu|libtpu not found|No module named 'libtpu'",
        means=Text("{framework} is installed without its TPU library (libtpu)."),
        fix=Text("Run `{install}` to install the library, then restart the kernel."),
        is_elsewhere=True,
    ),
    # There is no chip, or the framework does not see it.
    KnownError(
        name="no-chip",
        text=r"No jellyfish device found|No TPU Platform available|not in the list of known backends",
        means=Text("{framework} found no TPU chip on this machine."),
        fix=NO_CHIP_FIX,
        is_elsewhere=True,
    ),
    KnownError(
        name="cpu-by-default",
        text=r"Defaulting to PJRT_DEVICE=CPU",
        means=Text("PyTorch/XLA found no TPU chip when it started, and fell back to the CPU."),
        fix=Text(
            "Restart the kernel and run %tpu_init before anything else that uses the accelerator. It sets"
            " PJRT_DEVICE=TPU, which makes PyTorch/XLA fail instead of falling back."
        ),
        is_elsewhere=True,
    ),
    KnownError(
        name="no-metadata",
        text=r"expected string or bytes-like object, got 'NoneType'|Failed to get TPU metadata"
        r"|Failed to parse TPU version",
        means=Text(
            "PyTorch/XLA sees a chip but cannot read its type: it does not query the machine's metadata "
            "server, or gets no response."
        ),
        fix=Text(
            "Remove TPU_SKIP_MDS_QUERY from the kernel's environment, or set TPU_ACCELERATOR_TYPE to the node's type"
            " (such as v5litepod-8); then restart the kernel."
        ),
        is_elsewhere=True,
    ),
    # -- TensorFlow
    KnownError(
        name="no-tpu-platform",
        text=r"No TPU platform found\. Platform manager status",
        means=Text("This TensorFlow was built without TPU support, or for a libtpu other than the installed one."),
        fix=REINSTALL,
        is_elsewhere=True,
    ),
    KnownError(
        name="tensorflow-without-tpu",
        text=r"TPUs not found in the cluster|Op 'ConfigureDistributedTPU'",
        means=Text(
            "This TensorFlow does not support TPUs: use tensorflow-tpu instead of tensorflow or tensorflow-cpu."
        ),
        fix=Text("Run `%pip uninstall -y tensorflow tensorflow-cpu`, then `{install}`, then restart the kernel."),
        is_elsewhere=True,
    ),
    KnownError(
        name="tpu-unnamed",
        text=r"Please provide a TPU Name to connect to",
        means=Text(
            "TensorFlow's TPUClusterResolver was given no TPU. On a TPU VM the machine's own TPU is called “local”."
        ),
        fix=Text('Use TPUClusterResolver("local"), or the tpu.strategy that %tpu_init creates.'),
        is_elsewhere=True,
    ),
    KnownError(
        name="tpu-name-unknown",
        text=r"Name or service not known|Temporary failure in name resolution",
        means=Text("TensorFlow requested a TPU by name from the cloud, but cannot reach the TPU from here."),
        fix=Text('On a TPU VM use TPUClusterResolver("local"), or the tpu.strategy that %tpu_init creates.'),
        is_elsewhere=True,
    ),
    # PyTorch: the build is for other devices, or TorchTPU is not loaded.
    KnownError(
        name="torch-for-gpus",
        text=r"lib\w+\.so\.\*?\S* not found in the system path",
        means=Text("This PyTorch was built for NVIDIA GPUs, and its libraries are missing."),
        fix=Text(
            "Install PyTorch with all its requirements, or run `{install}` to install a CPU build, then restart "
            "the kernel."
        ),
    ),
    KnownError(
        name="torch-without-tpu",
        text=r"Expected one of cpu, cuda\b",
        means=Text(
            "PyTorch has no device “tpu” in this kernel: TorchTPU is not loaded, or found no chip when it was loaded."
        ),
        fix=Text(
            "If the node is under maintenance, wait a few minutes and try again. If its runtime version is "
            "unsuitable, recreate the node with {runtime_versions}. If the chips work, run `{install}`, then "
            "restart the kernel."
        ),
        is_elsewhere=True,
    ),
    # The user's own code has started the framework.
    KnownError(
        name="too-late",
        text=r"Virtual devices cannot be modified after being initialized"
        r"|Can't change device type after XLA runtime is initialized",
        means=Text(
            "{framework} was started in this kernel before %tpu_init, so its devices can't be changed any more."
        ),
        fix=RESTART,
    ),
    KnownError(
        name="slow-pages",
        text=r"Transparent hugepages are not enabled",
        means=Text("Transparent huge pages are off on this machine, so the TPU starts and stops more slowly."),
        fix=Text('To turn them on, run `!sudo sh -c "echo always > /sys/kernel/mm/transparent_hugepage/enabled"`.'),
        is_harmless=True,
    ),
)
"""The known messages, in the order in which they are compared: the most specific first."""


def find_known_error(message: str) -> tuple[KnownError, re.Match[str]] | None:
    """Return the table's entry for a message with the match, or None if the message is unknown."""
    for refusal in KNOWN_ERRORS:
        if found := re.search(refusal.text, message):
            return refusal, found
    return None


def known_error(name: str) -> KnownError:
    """Return the known error with this name."""
    return next(refusal for refusal in KNOWN_ERRORS if refusal.name == name)
