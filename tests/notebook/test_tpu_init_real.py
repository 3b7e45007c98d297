"""Real frameworks refuse in the words that we know, and are started by ``%tpu_init`` as the fakes say.

JAX without libtpu is here wherever the tests run. The others weigh gigabytes: name a Python that has IPython and them
by the variables of `PYTHONS`, and they are tried too. Where a chip must be seen, a folder stands for the machine's PCI
bus in a place of our own; a lock and an open file make a holder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest

import jupyter_tpu
from jupyter_tpu.notebook.node.this_worker import this_worker
from jupyter_tpu.notebook.tpu_init.diagnosis import diagnose_start
from jupyter_tpu.notebook.tpu_init.known_errors import find_known_error

PYTHONS = {
    "libtpu": "JUPYTER_TPU_PYTHON_LIBTPU",
    "tensorflow": "JUPYTER_TPU_PYTHON_TENSORFLOW",
    "torch_xla": "JUPYTER_TPU_PYTHON_TORCH_XLA",
}
PATIENCE_S = 280
RECIPES = Path(__file__).parents[2] / "docs" / "how-to" / "recipes"
EMULATED = {"JUPYTER_TPU_EMULATED": "1", "TPU_ACCELERATOR_TYPE": "v5litepod-8"}
FOUR_CHIPS = {**EMULATED, "TPU_ACCELERATOR_TYPE": "v5litepod-4"}
ON_A_NODE = {"TPU_ACCELERATOR_TYPE": "v5litepod-8"}
SHELL = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
shell.run_line_magic("load_ext", "jupyter_tpu")
for cell in sys.argv[1:]:
    shell.run_cell(cell)
"""
# A v5e chip on the bus, /dev with a device file and what else programs want of it, and /tmp as it is.
PLACE = """
set -e
mkdir -p "$1/devices/0000:00:04.0" "$1/old"
echo 0x1ae0 > "$1/devices/0000:00:04.0/vendor"
echo 0x0063 > "$1/devices/0000:00:04.0/device"
echo 0x0000 > "$1/devices/0000:00:04.0/subsystem_device"
mount --bind "$1" /sys/bus/pci
mount --rbind /dev "$1/old"
mount -t tmpfs none /dev
for name in null zero random urandom; do touch /dev/$name; mount --bind "$1/old/$name" /dev/$name; done
mkdir /dev/shm
touch /dev/accel0
shift
exec "$@"
"""
HOLD = """
import fcntl, os, subprocess, sys
lock = open("/tmp/libtpu_lockfile", "a+")
fcntl.lockf(lock, fcntl.LOCK_EX)
device = open("/dev/accel0") if sys.argv[1] == "with-device" else None
sys.exit(subprocess.run(sys.argv[2:]).returncode)
"""

chip_on_the_bus = pytest.mark.system("unshare")
pytestmark = pytest.mark.timeout(PATIENCE_S + 20)


@dataclass(frozen=True)
class Machine:
    """Runs programs where a TPU chip is seen."""

    enter: tuple[str, ...]

    def run(self, *argv: str, **variables: str) -> str:
        return run_program(*self.enter, *argv, **variables)


def run_program(*argv: str, **variables: str) -> str:
    """All that it says."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "TPU_", "XLA_", "PJRT_"))}
    root = str(Path(jupyter_tpu.__file__).parents[1])
    environ = {**kept, "PYTHONPATH": root, "TF_CPP_MIN_LOG_LEVEL": "2", "TPU_SKIP_MDS_QUERY": "1", **variables}
    done = subprocess.run(
        argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S
    )
    return done.stdout


@pytest.fixture
def machine(in_namespaces: list[str], tmp_path: Path) -> Machine:
    return Machine((*in_namespaces, "sh", "-c", PLACE, "sh", str(tmp_path / "bus")))


@pytest.fixture
def python_with(tmp_path: Path):
    """The Python that has a package, with a folder of IPython's own."""

    def find(package: str) -> str:
        return os.environ[PYTHONS[package]]

    return find


def cells(python: str, *lines: str) -> list[str]:
    return [python, "-c", SHELL, *lines]


# -- JAX as it is in the tests' own Python


@chip_on_the_bus
def test_jax_that_sees_a_chip_and_has_no_libtpu_says_it_in_the_words_we_know(machine: Machine) -> None:
    said = machine.run(sys.executable, "-c", "import jax; print(jax.devices())")
    assert "[CpuDevice(id=0)]" in said
    refusal, _ = find_known_error(said) or (None, None)
    assert refusal is not None, said
    assert refusal.name == "chip-without-libtpu"


@chip_on_the_bus
def test_a_node_whose_jax_lost_its_libtpu_is_refused_for_that(machine: Machine) -> None:
    refused = machine.run(*cells(sys.executable, "%tpu_init"), **ON_A_NODE)
    assert "JAX is installed without its TPU library (libtpu)." in refused


def test_jax_without_a_chip_falls_back_silently_and_keeps_a_reason_we_know() -> None:
    code = "import jax; print(jax.devices()); from jax._src import xla_bridge; print(xla_bridge._backend_errors)"
    said = run_program(sys.executable, "-c", code)
    assert "[CpuDevice(id=0)]" in said
    asked = run_program(sys.executable, "-c", "import jax; jax.devices()", JAX_PLATFORMS="tpu,cpu")
    error = diagnose_start(asked, this_worker(ON_A_NODE))
    assert "libtpu" in error.message or "no TPU chip" in error.message


# -- JAX with libtpu


@pytest.mark.optional("libtpu")
@chip_on_the_bus
@pytest.mark.parametrize("with_device", ["with-device", "without-device"])
def test_libtpu_that_is_in_use_elsewhere_is_told_with_its_holder(machine: Machine, python_with, with_device) -> None:
    python = python_with("libtpu")
    hold = (python, "-c", HOLD, with_device)
    raw = machine.run(*hold, python, "-c", "import jax; jax.devices()")
    expected = "already in use by process with pid" if with_device == "with-device" else "multi-process lockfile"
    assert expected in raw
    refused = machine.run(*hold, *cells(python, "%tpu_init jax"), **ON_A_NODE)
    assert "The TPU is in use by process 1" in refused
    assert "%tpu release" in refused


@pytest.mark.optional("libtpu")
@chip_on_the_bus
def test_libtpu_without_a_working_chip_is_told(machine: Machine, python_with) -> None:
    refused = machine.run(*cells(python_with("libtpu"), "%tpu_init jax"), **ON_A_NODE)
    assert "JAX found no TPU chip on this machine." in refused
    assert "No jellyfish device found" in refused
    assert "v2-alpha-tpuv5-lite" in refused


@pytest.mark.optional("libtpu")
def test_jax_with_libtpu_that_had_to_wait_for_its_holder_is_not_started_too_late(python_with) -> None:
    """The way out of "in use" needs no restart: libtpu is asked again."""
    python = python_with("libtpu")
    hold = "import fcntl; lock = open('/tmp/libtpu_lockfile', 'a+'); fcntl.lockf(lock, fcntl.LOCK_EX); input()"
    start = f"import subprocess as s, sys; held = s.Popen([sys.executable, '-c', {hold!r}], stdin=s.PIPE)"
    seen = "import time, jupyter_tpu.notebook.node.holders as h, pathlib\nlock = pathlib.Path('/tmp/libtpu_lockfile')\n"
    seen += "while not list(h.who_locks(lock)): time.sleep(0.05)"
    told = run_program(
        *cells(python, start, seen, "%tpu_init jax", "held.communicate(b'\\n')", "%tpu_init jax"), **ON_A_NODE
    )
    before, _, after = told.partition("%tpu release")
    assert "The TPU is in use by process" in before
    assert "JAX found no TPU chip on this machine." in after


# -- TensorFlow


@pytest.mark.optional("tensorflow")
def test_tensorflow_runs_on_the_stand_in_of_an_emulated_worker(python_with) -> None:
    told = run_program(
        *cells(
            python_with("tensorflow"),
            "%tpu_init",
            "first = tpu.strategy",
            "%tpu_init tf",
            "print(tpu.strategy is first, first.num_replicas_in_sync, tpu.devices[7].name)",
            "%tpu_init jax",
        ),
        **EMULATED,
    )
    assert told.count("TensorFlow is ready on 8 devices of v5litepod-8 (emulated") == 2
    assert "True 8 /device:CPU:7" in told
    assert "a MirroredStrategy over CPU devices replaces TPUStrategy here" in told
    assert "TensorFlow is already using the TPU in this kernel" in told


@pytest.mark.optional("tensorflow")
def test_tensorflow_that_was_used_before_is_too_late_on_an_emulated_worker(python_with) -> None:
    told = run_program(
        *cells(python_with("tensorflow"), "import tensorflow as tf; tf.constant(1)", "%tpu_init tf"), **EMULATED
    )
    assert "TensorFlow was started in this kernel before %tpu_init" in told


@pytest.mark.optional("tensorflow")
def test_tensorflow_for_cpus_is_told_on_a_node(python_with) -> None:
    told = run_program(*cells(python_with("tensorflow"), "%tpu_init tf"), **ON_A_NODE)
    assert "This TensorFlow does not support TPUs" in told


@pytest.mark.optional("tensorflow")
@pytest.mark.parametrize(
    ("name", "refusal"), [("''", "tpu-unnamed"), ("None", "tpu-unnamed"), ("'my-tpu'", "tpu-name-unknown")]
)
def test_tensorflow_with_another_name_than_local_is_told(python_with, name, refusal) -> None:
    code = f"import tensorflow as tf; tf.distribute.cluster_resolver.TPUClusterResolver({name})"
    found = find_known_error(run_program(python_with("tensorflow"), "-c", code))
    assert found is not None
    assert found[0].name == refusal


# -- PyTorch/XLA


@pytest.mark.optional("torch_xla")
def test_torch_xla_runs_on_the_stand_in_of_an_emulated_worker(python_with) -> None:
    told = run_program(*cells(python_with("torch_xla"), "%tpu_init torch_xla", "%tpu_init", "tpu"), **EMULATED)
    assert told.count("PyTorch/XLA is ready on 8 devices of v5litepod-8 (emulated") == 2
    assert "tpu.mesh (emulated)>" in told


@pytest.mark.optional("torch_xla")
def test_torch_xla_with_a_device_touched_is_too_late(python_with) -> None:
    touch = "import torch_xla; kept = torch_xla.device()"
    told = run_program(*cells(python_with("torch_xla"), touch, "%tpu_init", "print('the kernel lives')"), **EMULATED)
    assert "PyTorch/XLA has already used a device in this kernel" in told
    assert told.rstrip().endswith("the kernel lives")


@pytest.mark.optional("torch_xla")
def test_torch_xla_without_libtpu_or_chip_is_told(python_with) -> None:
    python = python_with("torch_xla")
    assert "PyTorch/XLA is installed without its TPU library" in run_program(
        *cells(python, "%tpu_init torch_xla"), **ON_A_NODE
    )
    silently = run_program(python, "-c", "import torch_xla; print(torch_xla.device())")
    found = find_known_error(silently)
    assert found is not None
    assert found[0].name == "cpu-by-default"


@pytest.mark.optional("torch_xla")
@chip_on_the_bus
def test_torch_xla_that_cannot_ask_for_its_type_is_told(machine: Machine, python_with) -> None:
    said = machine.run(python_with("torch_xla"), "-c", "import torch_xla")
    found = find_known_error(said)
    assert found is not None, said
    assert found[0].name == "no-metadata"


# -- recipes


@pytest.mark.parametrize(
    ("recipe", "package", "words"),
    [
        pytest.param(
            "flax_optax", "libtpu", "of the points are classified correctly", marks=pytest.mark.optional("libtpu")
        ),
        pytest.param(
            "tf_keras", "tensorflow", "of the points are classified correctly", marks=pytest.mark.optional("tensorflow")
        ),
        pytest.param(
            "torch_xla_spmd",
            "torch_xla",
            "of the points are classified correctly",
            marks=pytest.mark.optional("torch_xla"),
        ),
        pytest.param(
            "transformers", "torch_xla", "of the next numbers are right", marks=pytest.mark.optional("torch_xla")
        ),
    ],
)
def test_a_recipe_runs_on_the_stand_in_of_an_emulated_worker(python_with, recipe, package, words) -> None:
    notebook = nbformat.read(RECIPES / f"{recipe}.ipynb", as_version=4)
    lines = [cell["source"] for cell in notebook.cells if cell["cell_type"] == "code"]
    told = run_program(*cells(python_with(package), *lines, "print('the end')"), **FOUR_CHIPS)
    assert words in told
    assert "Error" not in told
    assert told.rstrip().endswith("the end")
