"""What `%tpu_init` shows."""

from __future__ import annotations

from jupyter_tpu.notebook.report import Device, Report
from jupyter_tpu.notebook.versions import libtpu_mismatch
from jupyter_tpu.notebook.worker import this_worker

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


def test_both_faces_say_that_a_worker_is_emulated():
    shown = report_of(emulated="1").to_mimebundle()
    for face in (shown["text/plain"], shown["text/html"]):
        assert "emulated: CPU devices stand in for the chips" in face
        assert "TPU v5 lite (emulated)" in face


def test_names_are_never_rendered_as_html():
    evil = "<img src=x onerror=alert(1)>"
    report = report_of(evil, devices=(Device(id=0, kind=evil),), proof=evil, versions={evil: evil}, warning=evil)
    assert "<img" not in report.to_html()
    assert report.to_html().count("&lt;img") == 6


def test_a_library_that_does_not_fit_is_warned_about():
    assert "Warning: too new" in str(report_of(warning="too new"))


def test_libtpu_is_held_against_what_jax_asks_for():
    asked = ["jaxlib<=0.10.2", 'libtpu==0.0.42.*; extra == "tpu"']
    versions = {**VERSIONS, "libtpu": "0.0.51"}
    assert libtpu_mismatch(versions, asked) == "libtpu 0.0.51 is installed, but jax 0.10.2 is made for 0.0.42."
    assert not libtpu_mismatch({**VERSIONS, "libtpu": "0.0.42.1"}, asked)
    assert not libtpu_mismatch(VERSIONS, asked)
    assert not libtpu_mismatch(versions, [])
