"""``%tpu_init`` as a user meets it."""

from __future__ import annotations

import importlib.util

import pytest

EMULATED_V5E_8 = {"JUPYTER_TPU_EMULATED": "1", "TPU_ACCELERATOR_TYPE": "v5litepod-8"}

without_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is not None, reason="libtpu is installed, and this is about its absence"
)


def test_an_emulated_worker_has_as_many_devices_as_its_type(run_cells):
    run = run_cells(
        "%tpu_init", "print(len(jax.devices()) if (jax := __import__('jax')) else 0)", environ=EMULATED_V5E_8
    )
    assert run.succeeded, run.text
    assert "JAX is ready on 8 devices of v5litepod-8 (emulated" in run.text
    assert "the sum of 0 to 1023, spread over all devices, is 523776" in run.text
    assert run.text.rstrip().endswith("8")


def test_one_worker_of_an_emulated_slice_is_refused_as_on_a_real_one(run_cells):
    run = run_cells("%tpu_init jax", environ={**EMULATED_V5E_8, "TPU_ACCELERATOR_TYPE": "v5litepod-16"})
    assert not run.succeeded
    assert "4 workers" in run.text


@pytest.mark.nightly
def test_jax_may_be_imported_before_as_long_as_it_has_not_started(run_cells):
    run = run_cells("import jax", "%tpu_init", environ=EMULATED_V5E_8)
    assert run.succeeded, run.text


@pytest.mark.nightly
def test_it_can_be_run_again(run_cells):
    run = run_cells("%tpu_init", "%tpu_init auto", environ=EMULATED_V5E_8)
    assert run.succeeded, run.text
    assert run.text.count("JAX is ready on 8 devices") == 2


def test_jax_that_started_with_other_devices_needs_a_new_kernel(run_cells):
    run = run_cells("import jax; jax.devices()", "%tpu_init", environ={**EMULATED_V5E_8, "JAX_PLATFORMS": "cpu"})
    assert not run.succeeded
    assert "JAX has 1 device in this kernel, but an emulated worker of v5litepod-8 has 8." in run.text
    assert "Restart the kernel" in run.text


@without_libtpu
def test_a_silent_fall_back_to_the_cpu_is_an_error_with_the_reason(run_cells):
    run = run_cells("import jax; jax.devices()", "%tpu_init", environ={"TPU_ACCELERATOR_TYPE": "v5litepod-8"})
    assert not run.succeeded
    assert "running on the CPU, not on the TPU" in run.text
    assert "Failed to open libtpu.so" in run.text


@without_libtpu
def test_a_tpu_node_without_libtpu_hears_what_to_install(run_cells):
    run = run_cells("%tpu_init", environ={"TPU_ACCELERATOR_TYPE": "v5litepod-8"})
    assert not run.succeeded
    assert 'pip install "jax[tpu]==' in run.text


@without_libtpu
def test_a_kernel_that_is_not_on_a_node_hears_which_kernel_to_choose(run_cells):
    run = run_cells("%tpu_init")
    assert not run.succeeded
    assert "This kernel does not run on a TPU node." in run.text


def test_a_missing_jax_hears_how_to_install_it(run_cells):
    hide = "import sys; sys.meta_path.insert(0, type('NoJax', (), {'find_spec': staticmethod(no_jax)}))"
    define = "def no_jax(name, *_):\n    if name == 'jax': raise ModuleNotFoundError(name=name)"
    run = run_cells(define, hide, "%tpu_init", "%tpu_init jax", environ=EMULATED_V5E_8)
    assert not run.succeeded
    assert "No framework for TPUs is installed in this kernel's Python." in run.text
    assert "JAX is not installed in this kernel's Python." in run.text
    assert run.text.count('%pip install "jax"') == 2


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--xla_nonsense=1", "--xla_nonsense=1"),
        ("--xla_tpu_x=true", "--xla_tpu_x"),
        ("nonsense", "Could not open file"),
    ],
)
def test_flags_that_would_end_the_kernel_are_tried_in_another_process(run_cells, flags, said):
    take_out = "import os; del os.environ['XLA_FLAGS']"
    run = run_cells("%tpu_init", take_out, "%tpu_init", environ={**EMULATED_V5E_8, "XLA_FLAGS": flags})
    refused, ready = run.text.split("JAX is ready on 8 devices")
    assert "contains an unknown flag, so starting JAX would crash this kernel" in refused
    assert said in refused
    assert take_out in refused
    assert ready


def test_flags_that_xla_knows_are_left_alone(run_cells):
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    run = run_cells("%tpu_init", "import os; print(os.environ['XLA_FLAGS'])", environ={**EMULATED_V5E_8, **flags})
    assert run.succeeded, run.text
    assert run.text.rstrip().endswith(flags["XLA_FLAGS"])


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"jax.py": "x = 1"}, "“import jax” imports {folder}/jax.py instead of JAX."),
        ({"torch_xla/readme": ""}, "“import torch_xla” imports {folder}/torch_xla instead of PyTorch/XLA."),
        ({"jax/__init__.py": "raise AttributeError('_ARRAY_API not found')"}, "AttributeError: _ARRAY_API not found"),
        ({"jax/__init__.py": "match = ("}, "SyntaxError: '(' was never closed"),
        (
            {"jax/__init__.py": "raise BufferError('broken')"},
            "JAX is installed in this kernel's Python, but does not load",
        ),
    ],
)
def test_what_is_no_framework_or_a_broken_one_is_said_and_leaves_nothing_behind(run_cells, tmp_path, files, said):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        framework = name.split("/")[0].removesuffix(".py")
    find_first = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    look = "import os; print([name for name in os.environ if name.startswith(('JAX_', 'PJRT_'))], 'are left')"
    run = run_cells(find_first, f"%tpu_init {framework}", look, environ=EMULATED_V5E_8)
    assert said.format(folder=tmp_path) in run.text
    assert "Traceback" not in run.text
    assert run.text.rstrip().endswith("[] are left")


INTERRUPT = "__import__('signal').raise_signal(2)"


def test_an_interrupt_in_the_import_of_jax_ends_the_cell_and_the_next_one_starts_jax(run_cells):
    define = f"def find_spec(name, *_):\n    if name == 'jax._src.config': {INTERRUPT}"
    interrupt = "import sys; sys.meta_path.insert(0, type('Interrupt', (), {'find_spec': staticmethod(find_spec)}))"
    run = run_cells(define, interrupt, "%tpu_init jax", "print('next')", "%tpu_init jax", environ=EMULATED_V5E_8)
    interrupted, retried = run.text.split("next\n")
    assert interrupted == "\x1b[31mKeyboardInterrupt\x1b[39m\n"
    assert "JAX is ready on 8 devices of v5litepod-8" in retried


@pytest.mark.parametrize(
    ("cell", "stops"),
    [
        ("import jax", INTERRUPT),
        # An import that hangs can be interrupted after some seconds.
        pytest.param("%tpu_init jax", f"{INTERRUPT}; time.sleep(5.1); {INTERRUPT}", marks=pytest.mark.nightly),
    ],
    ids=["plain import", "second interrupt"],
)
def test_after_an_import_that_was_stopped_a_restart_is_advised(run_cells, tmp_path, cell, stops):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "version.py").touch()
    (tmp_path / "jax" / "__init__.py").write_text(
        f"import time, jax.version\nif not hasattr(time, 'again'):\n    time.again = True; {stops}\njax.version"
    )
    find_first = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    run = run_cells(find_first, cell, "print('next')", "%tpu_init jax", environ=EMULATED_V5E_8)
    interrupted, retried = run.text.split("next\n")
    assert "KeyboardInterrupt" in interrupted
    assert "An earlier import of JAX was interrupted or failed" in retried
    assert "Restart the kernel" in retried
    assert "pip install" not in retried


# Callbacks of the garbage collector, in which Python drops an interrupt.
CALLBACKS = """
import gc, sys
during_start = []
def callback(*_, frame_here=sys._getframe, found=during_start):
    frame = frame_here()
    while frame and not frame.f_globals.get("__name__", "").endswith("tpu_init.jax_start"):
        frame = frame.f_back
    if frame: found.append(frame)
gc.callbacks.append(callback)
"""


def test_devices_and_mesh_are_handed_to_the_notebook(run_cells):
    show = "print(tpu.framework, len(tpu.devices), tpu.device is jax.devices()[0], dict(tpu.mesh.shape), tpu.strategy)"
    # something in the start collects explicitly, once
    count = "print(len(during_start) <= 2, gc.isenabled())"
    run = run_cells(CALLBACKS, "%tpu_init", "import jax", show, "tpu", count, environ=EMULATED_V5E_8)
    assert run.succeeded, run.text
    assert run.text.endswith("True True\n")
    assert "jax 8 True {'devices': 8} None" in run.text
    assert "tpu.mesh (emulated)>" in run.text
    assert "Why this framework: the only framework installed here." in run.text


def test_a_second_framework_in_one_kernel_is_refused(run_cells):
    run = run_cells("%tpu_init", "%tpu_init tf", environ=EMULATED_V5E_8)
    assert not run.succeeded
    assert "JAX is already using the TPU in this kernel, so TensorFlow cannot use it." in run.text
    assert "restart the kernel and run `%tpu_init tf` first" in run.text


def test_a_real_slice_of_several_workers_is_refused_before_jax_would_wait_for_ever(run_cells):
    run = run_cells("%tpu_init", environ={"TPU_ACCELERATOR_TYPE": "v5litepod-16"})
    assert not run.succeeded
    assert "JAX would wait for the others forever" in run.text


def test_our_errors_show_no_traceback(run_cells):
    run = run_cells("%tpu_init numpy")
    assert "BadInput" in run.text
    assert "'numpy' is not a framework that %tpu_init supports." in run.text
    assert "Traceback" not in run.text


def test_the_frameworks_are_completed(run_cells):
    ask = "from IPython.core.completer import provisionalcompleter as _p\n"
    ask += "with _p(): print(*sorted({each.text for each in get_ipython().Completer.completions('%tpu_init to', 12)}))"
    run = run_cells(ask)
    assert run.succeeded, run.text
    assert run.text.split() == ["torch_tpu", "torch_xla"]
