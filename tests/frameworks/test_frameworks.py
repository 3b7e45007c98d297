"""What the version matrix says of frameworks, their Python and the runtime versions they need."""

from __future__ import annotations

import pytest

from jupyter_tpu.errors import BadInput
from jupyter_tpu.frameworks import FRAMEWORKS, RELEASES, newest, python_range, release_of, runtime_version_fits


@pytest.mark.parametrize(
    ("framework", "python", "version", "libtpu"),
    [
        ("jax", None, "0.10.2", "==0.0.42.*"),
        ("jax", (3, 10), "0.6.2", "==0.0.17.*"),
        ("jax", (3, 14), "0.10.2", "==0.0.42.*"),
        ("torch_xla", None, "2.9.0", "==0.0.21"),
        ("torch_xla", (3, 10), "2.9.0", "==0.0.21"),
        ("torch_tpu", (3, 12), "0.2.0", ">=0.0.50"),
        ("tf", (3, 13), "2.20.0", "~=0.0.14"),
    ],
)
def test_the_newest_release_depends_on_the_python(framework, python, version, libtpu):
    release = newest(framework, python)
    assert (release.version, release.libtpu) == (version, libtpu)


@pytest.mark.parametrize(
    ("framework", "python", "words"),
    [
        ("mxnet", None, "jax, torch_xla, torch_tpu, tf"),
        ("torch_tpu", (3, 10), "TorchTPU 0.2 needs Python 3.11 or newer"),
        ("torch_xla", (3, 14), "PyTorch/XLA 2.9 needs Python 3.10 to 3.13"),
    ],
)
def test_a_framework_that_cannot_be_installed_is_refused_in_words(framework, python, words):
    with pytest.raises(BadInput) as refused:
        newest(framework, python)
    assert words in refused.value.hint


@pytest.mark.parametrize(
    ("framework", "version", "found"),
    [("jax", "0.10.0", "0.10.2"), ("jax", "0.1.75", None), ("torch_xla", "2.8.0+cpu", "2.8.1"), ("tf", "", None)],
)
def test_a_release_is_found_by_its_minor_version(framework, version, found):
    release = release_of(framework, version)
    assert (release and release.version) == found


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_releases_of_a_framework_are_listed_oldest_first(framework):
    minors = [tuple(map(int, each.minor.split("."))) for each in RELEASES if each.framework == framework]
    assert minors == sorted(set(minors))
    assert minors


def test_a_range_of_pythons_reads_as_people_say_it():
    assert [python_range(newest(framework)) for framework in ("jax", "tf")] == ["3.11 or newer", "3.9 to 3.13"]


@pytest.mark.parametrize(
    ("accelerator_type", "runtime_version", "framework", "words"),
    [
        ("v5litepod-8", "v2-alpha-tpuv5-lite", "jax", ""),
        (
            "v5litepod-8",
            "v2-alpha-tpuv5",
            "jax",
            "TPU v5p. For TPU v5e, use one of these: v2-alpha-tpuv5-lite, ",
        ),
        ("v4-8", "tpu-ubuntu2204-base", "torch_xla", ""),
        ("v6e-8", "tpu-ubuntu2204-base", "torch_xla", "For TPU v6e, use one of these: v2-alpha-tpuv6e."),
        ("v3-8", "tpu-vm-tf-2.18.0", "tf", ""),
        ("v3-32", "tpu-vm-tf-2.18.0", "tf", "v3-32 has 4 workers"),
        ("v3-32", "tpu-vm-tf-2.18.0-pod-pjrt", "tf", ""),
        ("v3-32", "tpu-ubuntu2204-base", "jax", ""),
        ("v9-8", "tpu-ubuntu2204-base", "tf", ""),
        ("v5litepod-8", "an-image-of-tomorrow", "jax", ""),
    ],
)
def test_a_runtime_version_is_judged_only_by_what_is_known(accelerator_type, runtime_version, framework, words):
    found = runtime_version_fits(accelerator_type, runtime_version, framework)
    assert words in found
    assert bool(words) == bool(found)
