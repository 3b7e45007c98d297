"""Which variables are set and what is touched in which order, for frameworks that are too big to install for a check.

The fakes stand for what was read in torch_xla 2.9.0, torch_tpu 0.2.0 and TensorFlow 2.21 and seen of them; that the
real ones are started alike show tests/notebook/test_tpu_init_real.py, where they are installed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

FAKES = Path(__file__).with_name("fake_frameworks")


@pytest.fixture
def run_with(run_cells, tmp_path):
    """Run cells on a node with no framework but these fakes."""

    def run(*cells, modules, accelerator_type="v5litepod-8", **variables):
        place = tmp_path / "packages"
        for name in (*modules, "touched.py"):
            copy = shutil.copytree if (FAKES / name).is_dir() else shutil.copy
            place.mkdir(exist_ok=True)
            copy(FAKES / name, place / name)
        devices = tmp_path / "dev"
        devices.mkdir()
        lock = {"JUPYTER_TPU_DEVICES": str(devices), "JUPYTER_TPU_LOCK_FILE": str(tmp_path / "lock")}
        places = {"PYTHONPATH": str(place), **lock}
        return run_cells(*cells, environ={**places, "TPU_ACCELERATOR_TYPE": accelerator_type, **variables})

    return run


def touched(run):
    return [line.removeprefix("touched: ") for line in run.text.splitlines() if line.startswith("touched: ")]


XLA = ("torch", "torch_xla")
TPU = ("torch", "torch_tpu")


def test_torch_xla_is_told_of_the_tpu_before_its_import_and_of_spmd_before_its_devices(run_with):
    run = run_with("%tpu_init torch_xla", "print(tpu.device, len(tpu.devices), tpu.mesh.device_ids)", modules=XLA)
    assert run.succeeded, run.text
    assert [each.split(" PJRT")[0] for each in touched(run)] == [
        "import torch_xla",
        "use_spmd",
        "addressable_runtime_device_count",
        "Mesh (8,) ('devices',)",
        "device",
        "import torch",
        "arange on cpu",
        "mark_sharding",
        "addressable_runtime_device_count",
    ]
    assert all("PJRT_DEVICE=TPU" in each for each in touched(run))
    assert "PyTorch/XLA is ready on 8 devices of v5litepod-8" in run.text
    assert "xla:0 8 [0, 1, 2, 3, 4, 5, 6, 7]" in run.text


def test_torch_xla_with_a_device_touched_is_refused_and_the_kernel_lives(run_with):
    touch = "import os; os.environ['PJRT_DEVICE'] = 'TPU'; import torch_xla; torch_xla.device()"
    run = run_with(touch, "%tpu_init torch_xla", "print('the kernel lives')", modules=XLA)
    assert "It is too late to run %tpu_init: PyTorch/XLA has already used a device" in run.text
    assert "use_spmd" not in " ".join(touched(run))
    assert run.text.rstrip().endswith("the kernel lives")


def test_torch_xla_is_not_told_of_spmd_twice(run_with):
    run = run_with("%tpu_init torch_xla", "%tpu_init torch_xla", modules=XLA)
    assert run.succeeded, run.text
    assert sum(each.startswith("use_spmd") for each in touched(run)) == 1


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"FAKE_DEVICE_TYPE": "CPU"}, "PyTorch/XLA is running on the CPU, not on the TPU"),
        ({"FAKE_DEVICES": "4"}, "PyTorch/XLA has 4 devices in this kernel, but a worker of v5litepod-8 has 8."),
        ({"FAKE_FAILURE": "TPU initialization failed: No jellyfish device found."}, "PyTorch/XLA found no TPU chip"),
        ({"accelerator_type": "v5litepod-16"}, "PyTorch/XLA would wait for the others forever"),
    ],
)
def test_torch_xla_without_all_its_chips_is_refused_with_the_reason(run_with, variables, words):
    run = run_with("%tpu_init torch_xla", modules=XLA, **variables)
    assert not run.succeeded
    assert words in run.text
    assert "Traceback" not in run.text


def test_torch_tpu_is_given_one_chip_before_its_import(run_with):
    run = run_with("%tpu_init torch_tpu", "print(tpu.devices)", modules=TPU, FAKE_TORCH="torch_tpu")
    assert run.succeeded, run.text
    expected = "TORCH_DEVICE_BACKEND_AUTOLOAD=1 TPU_VISIBLE_CHIPS=0 TPU_CHIPS_PER_PROCESS_BOUNDS=1,1,1"
    what = ("import torch", "import torch_tpu", "arange on tpu")
    assert touched(run) == [f"{each} {expected}" for each in what]
    assert "TorchTPU is ready on 1 device of v5litepod-8" in run.text
    assert "TorchTPU uses one chip per process" in run.text


def test_chips_that_the_user_has_chosen_stay_chosen(run_with):
    chosen = {"TPU_VISIBLE_CHIPS": "3", "FAKE_TORCH": "torch_tpu"}
    run = run_with("%tpu_init torch_tpu", "%tpu_init torch_tpu", modules=TPU, **chosen)
    assert run.succeeded, run.text
    assert all(each.endswith("TORCH_DEVICE_BACKEND_AUTOLOAD=1 TPU_VISIBLE_CHIPS=3") for each in touched(run))


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"FAKE_CHIPS": "0"}, "PyTorch has no device “tpu” in this kernel"),
        ({"accelerator_type": "v3-8"}, "TorchTPU does not support v3-8"),
        ({"JUPYTER_TPU_EMULATED": "1"}, "TorchTPU needs real chips"),
    ],
)
def test_torch_tpu_where_it_cannot_run_is_refused_with_the_reason(run_with, variables, words):
    run = run_with("%tpu_init torch_tpu", modules=TPU, FAKE_TORCH="torch_tpu", **variables)
    assert not run.succeeded
    assert words in run.text


def test_what_was_set_for_a_framework_that_does_not_start_is_taken_back(run_with):
    run = run_with("%tpu_init torch_tpu", "import os; print(os.environ.get('TPU_VISIBLE_CHIPS'))", modules=("torch",))
    assert "TorchTPU is not installed in this kernel's Python." in run.text
    assert run.text.rstrip().endswith("None")


def test_what_a_framework_sets_itself_stays_when_it_does_not_start(run_with):
    look = "import os; print(os.environ.get('TPU_ML_PLATFORM'), os.environ.get('PJRT_DEVICE'))"
    run = run_with("%tpu_init torch_xla", look, modules=XLA, FAKE_DEVICE_TYPE="CPU")
    assert "PyTorch/XLA is running on the CPU" in run.text
    assert run.text.rstrip().endswith("PyTorch/XLA None")


def test_off_a_node_every_framework_says_that_it_is_none(run_with):
    run = run_with("%tpu_init torch_tpu", modules=TPU, accelerator_type="", FAKE_TORCH="torch_tpu", FAKE_CHIPS="0")
    assert "This kernel does not run on a TPU node." in run.text


def test_tensorflow_finds_the_tpu_of_its_own_machine_and_starts_it_once(run_with):
    run = run_with(
        "%tpu_init tf", "first = tpu.strategy", "%tpu_init tf", "print(tpu.strategy is first)", modules=("tensorflow",)
    )
    assert run.succeeded, run.text
    assert touched(run) == [
        "import tensorflow",
        "TPUClusterResolver local",
        "connect to local",
        "initialize_tpu_system",
        "TPUStrategy on local",
    ]
    assert "TensorFlow is ready on 8 devices of v5litepod-8" in run.text
    assert run.text.rstrip().endswith("True")


def test_tensorflow_without_tpus_hears_what_to_install(run_with):
    said = "TPUs not found in the cluster. Failed in initialization: No OpKernel was registered"
    run = run_with("%tpu_init tf", modules=("tensorflow",), FAKE_FAILURE=said)
    assert not run.succeeded
    assert "This TensorFlow does not support TPUs" in run.text
    assert "%pip uninstall -y tensorflow tensorflow-cpu" in run.text
    assert said in run.text


def test_the_process_in_the_way_is_named_before_the_framework_runs_into_it(run_with, tmp_path):
    device = f"device = open({str(tmp_path / 'dev' / 'accel0')!r}, 'a')"
    hold = f"import subprocess, sys; {device}\nholder = subprocess.Popen([sys.executable, '-c', 'input()'], "
    hold += "stdin=subprocess.PIPE, stdout=device)\ndevice.close()"
    run = run_with(hold, "%tpu_init torch_xla", "holder.communicate(b'\\n'); print(holder.pid)", modules=XLA)
    pid = run.text.split()[-1]
    assert f"The TPU is in use by process {pid} (" in run.text
    assert "To end that process, run `%tpu release`" in run.text
    assert "device" not in " ".join(touched(run))
