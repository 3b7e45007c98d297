"""Each text with which a framework or libtpu refuses is recognised, explained and answered with the way out."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from jupyter_tpu.errors import AcceleratorBusy, AcceleratorFailed
from jupyter_tpu.notebook.node.this_worker import this_worker
from jupyter_tpu.notebook.tpu_init.diagnosis import CHOOSE_NODE, diagnose_start, explain_warning
from jupyter_tpu.notebook.tpu_init.known_errors import KNOWN_ERRORS, find_known_error

ON_A_NODE = this_worker({"TPU_ACCELERATOR_TYPE": "v5litepod-8"})
ELSEWHERE = this_worker({})
SUFFIX = " (set JAX_PLATFORMS='' to automatically choose an available backend)"


@dataclass(frozen=True)
class Row:
    """A text as it was recorded, and what the user must read in our words."""

    refusal: str
    framework: str
    text: str
    means: str
    fix: str
    kind: type[AcceleratorFailed] = AcceleratorFailed


ROWS = [
    Row(
        "held",
        "jax",
        "Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid 3999999. Not"
        " attempting to load libtpu.so in this process." + SUFFIX,
        "in use by process 3999999",
        "%tpu release",
        AcceleratorBusy,
    ),
    Row(
        "locked",
        "jax",
        "Unable to initialize backend 'tpu': ABORTED: Internal error when accessing libtpu multi-process lockfile. Run"
        ' "$ sudo rm /tmp/libtpu_lockfile".' + SUFFIX,
        "lock file /nowhere/libtpu_lockfile, and this kernel sees no process",
        "If no process is listed",
        AcceleratorBusy,
    ),
    Row(
        "held-by-somebody",
        "jax",
        'The TPU is already in use by another process probably owned by another user. Run "$ sudo lsof -w /dev/accel0"'
        " to figure out which process is using the TPU.",
        "probably another user",
        "sudo lsof",
        AcceleratorBusy,
    ),
    Row(
        "chip-without-libtpu",
        "jax",
        "A Google TPU may be present on this machine, but either a TPU-enabled jaxlib or libtpu is not installed."
        " Falling back to cpu.",
        "fell back to the CPU",
        '%pip install "jax[tpu]==',
    ),
    Row(
        "libtpu-missing",
        "jax",
        "Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: libtpu.so: cannot open shared object"
        " file: No such file or directory" + SUFFIX,
        "JAX is installed without its TPU library",
        '%pip install "jax[tpu]==',
    ),
    Row("libtpu-missing", "torch_xla", "libtpu not found", "PyTorch/XLA is installed without", '"torch_xla[tpu]=='),
    Row(
        "no-chip",
        "jax",
        "Unable to initialize backend 'tpu': NOT_FOUND: TPU initialization failed: No jellyfish device found." + SUFFIX,
        "JAX found no TPU chip",
        "v2-alpha-tpuv5-lite",
    ),
    Row(
        "no-chip",
        "torch_xla",
        "TPU initialization failed: No jellyfish device found.",
        "PyTorch/XLA found no TPU chip",
        "under maintenance",
    ),
    Row(
        "cpu-by-default",
        "torch_xla",
        "WARNING:root:Defaulting to PJRT_DEVICE=CPU",
        "fell back to the CPU",
        "PJRT_DEVICE=TPU",
    ),
    Row(
        "no-metadata",
        "torch_xla",
        "expected string or bytes-like object, got 'NoneType'",
        "cannot read its type",
        "TPU_SKIP_MDS_QUERY",
    ),
    Row(
        "libtpu-newer",
        "torch_xla",
        "Unexpected PJRT_Plugin_Attributes_Args size: expected 32, got 24. The plugin is likely built with a later"
        " version than the framework.",
        "PyTorch/XLA and libtpu are incompatible",
        "matching versions",
    ),
    Row(
        "libtpu-newer",
        "torch_xla",
        "Mismatched PJRT plugin PJRT API version (0.47) and framework PJRT API version 0.40)",
        "are incompatible",
        "matching versions",
    ),
    Row(
        "parts-differ",
        "jax",
        "jaxlib version 0.10.2 is newer than and incompatible with jax version 0.9.0. Please update your jax",
        "jax and jaxlib are incompatible",
        "matching versions",
    ),
    Row(
        "shadowed-libtpu",
        "jax",
        """cloud_tpu_init failed: AttributeError("module 'libtpu' has no attribute 'get_library_path'")""",
        "Two packages installed a libtpu",
        "%pip uninstall -y tensorflow-tpu libtpu",
    ),
    Row(
        "no-tpu-platform",
        "tf",
        "No TPU platform found. Platform manager status: OK",
        "built without TPU support, or for a libtpu other",
        '"tensorflow-tpu==',
    ),
    Row(
        "tensorflow-without-tpu",
        "tf",
        "TPUs not found in the cluster. Failed in initialization: No OpKernel was registered to support Op"
        " 'ConfigureDistributedTPU' used by {{node ConfigureDistributedTPU}} with these attrs: [",
        "does not support TPUs",
        '"tensorflow-tpu==',
    ),
    Row("tpu-unnamed", "tf", "Please provide a TPU Name to connect to.", "was given no TPU", '("local")'),
    Row(
        "tpu-name-unknown",
        "tf",
        "<urlopen error [Errno -2] Name or service not known>",
        "by name from the cloud",
        '("local")',
    ),
    Row(
        "torch-for-gpus",
        "torch_xla",
        "libcublas.so.*[0-9] not found in the system path ['/home/me/.venv/bin']",
        "built for NVIDIA GPUs",
        "%pip install",
    ),
    Row(
        "torch-without-tpu",
        "torch_tpu",
        "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl device type at start of device string: tpu",
        "no device “tpu”",
        '"torch_tpu==',
    ),
    Row(
        "too-late",
        "tf",
        "Virtual devices cannot be modified after being initialized",
        "TensorFlow was started in this kernel before",
        "Restart the kernel",
    ),
    Row("too-late", "torch_xla", "Can't change device type after XLA runtime is initialized", "before", "Restart"),
]
NOWHERE = this_worker({"TPU_ACCELERATOR_TYPE": "v5litepod-8", "JUPYTER_TPU_LOCK_FILE": "/nowhere/libtpu_lockfile"})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.refusal}-{row.framework}")
def test_each_text_is_explained_and_answered_with_the_way_out(row):
    error = diagnose_start(row.text, NOWHERE, row.framework)
    assert type(error) is row.kind
    assert row.means in f"{error.message} {error.exists}"
    assert row.fix in error.hint
    assert error.raw == row.text
    assert "{" not in error.message + error.hint


def test_every_refusal_that_is_known_has_a_row_here():
    harmful = {refusal.name for refusal in KNOWN_ERRORS if not refusal.is_harmless}
    assert {row.refusal for row in ROWS} == harmful


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.refusal}-{row.framework}")
def test_no_text_is_taken_for_another(row):
    refusal, _ = find_known_error(row.text)
    assert refusal.name == row.refusal


@pytest.mark.parametrize(
    "text",
    [row.text for row in ROWS if next(each for each in KNOWN_ERRORS if each.name == row.refusal).is_elsewhere],
)
def test_off_a_node_what_they_mean_is_that_this_is_none(text):
    error = diagnose_start(text, ELSEWHERE, "jax")
    assert error.message == "This kernel does not run on a TPU node."
    assert error.hint == CHOOSE_NODE


def test_a_text_that_nobody_has_seen_is_shown_as_it_is():
    error = diagnose_start("a text nobody has seen", ON_A_NODE, "tf")
    assert error.message == "TensorFlow could not start on the TPU."
    assert (error.raw, "Restart the kernel" in error.hint) == ("a text nobody has seen", True)


def test_a_warning_that_does_no_harm_is_explained_and_refuses_nothing():
    said = "Transparent hugepages are not enabled. TPU runtime startup and shutdown time should be significantly…"
    assert "more slowly. To turn them on, run `!sudo" in explain_warning(said, ON_A_NODE, "jax")
    assert explain_warning("some other warning", ON_A_NODE, "jax") == ""
    assert explain_warning(ROWS[0].text, ON_A_NODE, "jax") == ""
