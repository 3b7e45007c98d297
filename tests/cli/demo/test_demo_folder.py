"""The demo's folder keeps what is the user's and is never somebody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_tpu.cli.demo.folder import DemoFolder
from jupyter_tpu.errors import BadInput
from jupyter_tpu.setup.example import NOTEBOOK


def prepared(root: Path) -> DemoFolder:
    folder = DemoFolder(root)
    with folder.locked():
        folder.prepare()
    return folder


def test_the_example_notebook_is_put_in(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "demo")

    assert (folder.notebooks / NOTEBOOK).stat().st_size > 100


def test_an_edited_notebook_stays_as_it_is(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "demo")
    (folder.notebooks / NOTEBOOK).write_text("mine")

    prepared(tmp_path / "demo")

    assert (folder.notebooks / NOTEBOOK).read_text() == "mine"


def test_an_untouched_notebook_of_an_older_version_is_renewed(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "demo")
    shipped = (folder.notebooks / NOTEBOOK).read_bytes()
    (folder.notebooks / NOTEBOOK).unlink()

    prepared(tmp_path / "demo")

    assert (folder.notebooks / NOTEBOOK).read_bytes() == shipped


@pytest.mark.parametrize("marker", ["{not json", "[]", "\xff"])
def test_a_notebook_stays_as_it_is_when_nobody_remembers_whose_it_is(tmp_path: Path, marker: str) -> None:
    folder = prepared(tmp_path / "demo")
    (folder.notebooks / NOTEBOOK).write_text("mine")
    (folder.root / ".jupyter-tpu-demo.json").write_bytes(marker.encode("latin-1"))

    prepared(tmp_path / "demo")

    assert (folder.notebooks / NOTEBOOK).read_text() == "mine"


def test_a_reset_leaves_nothing_of_earlier_demos(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "demo")
    (folder.notebooks / NOTEBOOK).write_text("mine")

    with folder.locked():
        folder.reset()
        folder.prepare()

    assert (folder.notebooks / NOTEBOOK).read_text() != "mine"


def test_kernels_of_an_earlier_cloud_are_forgotten(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path / "demo")
    with folder.locked():
        folder.prepare()
    note = folder.root / "jupyter" / "tpu" / "kernels" / "some-kernel.json"
    note.parent.mkdir(parents=True)
    note.write_text("{}")

    with folder.locked():
        folder.prepare()

    assert not note.exists()


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(BadInput, match="is not a demo folder"), DemoFolder(tmp_path).locked():
        pass

    assert (tmp_path / "thesis.tex").exists()


def test_two_demos_cannot_share_a_folder(tmp_path: Path) -> None:
    with (
        DemoFolder(tmp_path / "demo").locked(),
        pytest.raises(BadInput, match="already running"),
        DemoFolder(tmp_path / "demo").locked(),
    ):
        pass


def test_the_environment_keeps_jupyter_inside_the_folder(tmp_path: Path) -> None:
    environment = DemoFolder(tmp_path).environment()

    ours = [value for name, value in environment.items() if name.startswith("JUPYTER") and "DIR" in name]
    assert len(ours) >= 6
    assert all(value.startswith(str(tmp_path)) for value in ours)
