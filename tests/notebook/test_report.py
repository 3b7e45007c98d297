"""What `%tpu_init` shows."""

from __future__ import annotations

import pytest

from jupyter_tpu.notebook.display import Section
from jupyter_tpu.notebook.node.this_worker import this_worker
from jupyter_tpu.notebook.tpu_init.library_versions import LIBRARIES, is_within, libtpu_mismatch
from jupyter_tpu.notebook.tpu_init.report import Device, Report

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2", "libtpu": ""}


def report_of(accelerator_type: str = "v5litepod-8", emulated: str = "", **changes) -> Report:
    worker = this_worker({"TPU_ACCELERATOR_TYPE": accelerator_type, "JUPYTER_TPU_EMULATED": emulated})
    devices = (Device(id=0, kind="TPU v5 lite", memory_bytes=16 * 2**30), Device(id=1, kind="TPU v5 lite"))
    return Report(worker=worker, **{"devices": devices, "proof": "it adds up", "versions": VERSIONS, **changes})


def test_both_faces_show_devices_memory_proof_and_versions():
    shown = report_of(seconds=1.25).to_mimebundle()
    for face in (shown["text/plain"], shown["text/html"]):
        assert "JAX is ready on 2 devices of v5litepod-8" in face
        assert "16.0 GiB" in face
        assert "unknown" in face
        assert "it adds up" in face
        assert "jax 0.10.2" in face
        assert "libtpu not installed" in face
        assert "emulated" not in face


def test_text_is_aligned_left_and_numbers_right_whatever_the_front_end_does():
    table = report_of().to_html()
    for tag, side, text in [("td", "right", "0"), ("td", "left", "TPU v5 lite"), ("td", "right", "16.0 GiB")]:
        assert f'<{tag} style="text-align: {side}">{text}</{tag}>' in table
    for side, title in [("right", "device"), ("left", "kind"), ("right", "memory")]:
        assert f'<th scope="col" style="text-align: {side}">{title}</th>' in table


@pytest.mark.parametrize(
    ("column", "side"),
    [
        (["8", "unknown"], "right"),
        (["12.5 %", "≈ $3.20", "1,024"], "right"),
        (["0.10.2", "3.11"], "left"),
        (["4 × TPU v5 lite"], "left"),
        (["unknown"], "left"),
    ],
)
def test_a_column_is_aligned_by_what_it_holds(column, side):
    section = Section(header=("it",), rows=[[cell] for cell in column])
    assert f'style="text-align: {side}">{column[0].replace("$", "<span>$</span>")}</td>' in "".join(section.to_html())


def test_both_faces_say_that_a_worker_is_emulated():
    shown = report_of(emulated="1").to_mimebundle()
    for face in (shown["text/plain"], shown["text/html"]):
        assert "emulated: CPU devices replace the chips" in face
        assert "TPU v5 lite (emulated)" in face


def test_names_are_never_rendered_as_html():
    evil = "<img src=x onerror=alert(1)>"
    told = {"proof": evil, "versions": {evil: evil}, "warning": evil, "why": evil, "remark": evil}
    report = report_of(evil, devices=(Device(id=0, kind=evil),), **told)
    assert "<img" not in report.to_html()
    assert report.to_html().count("&lt;img") == 8


def test_a_library_that_does_not_fit_is_warned_about():
    assert "Warning: too new" in str(report_of(warning="too new"))


def test_libtpu_is_held_against_what_jax_asks_for():
    asked = ["jaxlib<=0.10.2", 'libtpu==0.0.42.*; extra == "tpu"']
    versions = {**VERSIONS, "libtpu": "0.0.51"}
    told = libtpu_mismatch("jax", versions, asked)
    assert told == "libtpu 0.0.51 is installed, but JAX 0.10.2 needs ==0.0.42.*."
    assert not libtpu_mismatch("jax", {**VERSIONS, "libtpu": "0.0.42.1"}, asked)
    assert not libtpu_mismatch("jax", VERSIONS, asked)


@pytest.mark.parametrize(
    ("framework", "version", "libtpu", "fits"),
    [
        ("jax", "0.10.1", "0.0.42.1", True),
        ("jax", "0.10.2", "0.0.51", False),
        ("torch_xla", "2.9.0", "0.0.21", True),
        ("torch_xla", "2.9.0+cpu", "0.0.42", False),
        ("torch_tpu", "0.2.0", "0.0.51", True),
        ("torch_tpu", "0.2.0", "0.0.42", False),
        ("tf", "2.20.0", "0.0.17", True),
        ("tf", "2.20.0", "0.1.0", False),
        ("jax", "99.0.0", "0.0.1", True),
        ("tf", "", "0.0.1", True),
    ],
)
def test_where_the_package_does_not_say_the_matrix_does(framework, version, libtpu, fits):
    library = LIBRARIES[framework][0]
    told = libtpu_mismatch(framework, {library: version, "libtpu": libtpu}, [])
    assert (told == "") == fits


@pytest.mark.parametrize(
    ("version", "specifier", "is_met"),
    [
        ("0.0.42.1", "==0.0.42.*", True),
        ("0.0.42", "==0.0.42.*", True),
        ("0.0.421", "==0.0.42.*", False),
        ("0.0.21", "==0.0.21", True),
        ("0.0.21.0", "==0.0.21", True),
        ("0.0.50", ">=0.0.50", True),
        ("0.0.49", ">=0.0.50,<0.1", False),
        ("0.1", ">=0.0.50,<0.1", False),
        ("0.0.3", "!=0.0.3", False),
        ("0.0.15", "~=0.0.14", True),
        ("0.0.13", "~=0.0.14", False),
        ("0.0.3.dev20260101", ">0.0.2", True),
        ("0.0.3", "@ https://example.org/libtpu.whl", True),
    ],
)
def test_versions_are_compared_as_the_packages_ask(version, specifier, is_met):
    assert is_within(version, specifier) == is_met


def test_both_faces_say_why_a_framework_was_chosen_and_what_is_particular():
    shown = report_of(framework="tf", why="imported in this kernel already", remark="use tpu.strategy").to_mimebundle()
    for face in (shown["text/plain"], shown["text/html"]):
        assert "TensorFlow is ready on 2 devices" in face
        assert "Why this framework: imported in this kernel already." in face
        assert "Note: use tpu.strategy." in face
