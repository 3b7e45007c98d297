"""What the folder of a notebook requires is read from the files that people keep for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_tpu.kernels.environment_folder import FolderNeeds, folder_needs


@pytest.mark.parametrize(
    ("files", "needs"),
    [
        ({}, FolderNeeds()),
        (
            {"requirements.txt": "numpy>=2 # new\n\n# words\nflax[all]==0.12 \\\n  --hash=sha256:12\nnumpy>=2\n"},
            FolderNeeds(source="requirements.txt", lines=("numpy>=2", "flax[all]==0.12")),
        ),
        (
            {"requirements.txt": "-r more.txt\n", "more.txt": "optax\n--requirement=last.txt", "last.txt": "chex"},
            FolderNeeds(source="requirements.txt", lines=("optax", "chex")),
        ),
        (
            {"requirements.txt": "a @ https://example.org/a.whl\nb @ file:///b\n-e .\n../c\nd-1-py3-none-any.whl\n"},
            FolderNeeds(
                source="requirements.txt",
                lines=("a @ https://example.org/a.whl",),
                left_out=("b @ file:///b", "-e .", "../c", "d-1-py3-none-any.whl"),
            ),
        ),
        (
            {"pyproject.toml": '[project]\nname="x"\ndependencies=["optax"]', "requirements.txt": "chex"},
            FolderNeeds(source="requirements.txt", lines=("chex",)),
        ),
        (
            {"pyproject.toml": '[project]\nname = "x"\ndependencies = ["optax", "chex; python_version > \'3.9\'"]'},
            FolderNeeds(source="pyproject.toml", lines=("optax", "chex; python_version > '3.9'")),
        ),
        ({"pyproject.toml": "[tool.ruff]"}, FolderNeeds(source="pyproject.toml")),
        (
            {"pyproject.toml": '[project]\ndependencies = []\n[tool.poetry.dependencies]\ntorch = "2"'},
            FolderNeeds(source="pyproject.toml"),
        ),
        ({"pyproject.toml": '[tool.poetry.dependencies]\npython = "^3.11"'}, FolderNeeds(source="pyproject.toml")),
        (
            {"requirements.txt": "-i https://me:pw@1@example.org/a\n--extra-index-url=http://key@example.org/b@c\n"},
            FolderNeeds(
                source="requirements.txt",
                left_out=("-i https://…@example.org/a", "--extra-index-url=http://…@example.org/b@c"),
            ),
        ),
    ],
)
def test_requirements_are_found_in_a_folder(tmp_path: Path, files: dict[str, str], needs: FolderNeeds) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert folder_needs(tmp_path) == needs


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pyproject.toml", b"[project"),
        ("pyproject.toml", b"project = 3"),
        ("requirements.txt", b"\xff\xfe\x00"),
        ("requirements.txt", b"-r missing.txt"),
        ("requirements.txt", b"a\n" * 200_000),
        ("requirements.txt", b"-r requirements.txt"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_fault_in_words(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    needs = folder_needs(tmp_path)
    assert needs.source == name
    assert needs.fault or needs.left_out
    assert needs.lines == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("project.dependencies = ['']", "must be a list of requirements"),
        ("project.dependencies = 'numpy'", "must be a list of requirements"),
        ("project.dependencies = {numpy = '2'}", "must be a list of requirements"),
        ("project.dependencies = ['numpy', 2]", "must be a list of requirements"),
        ("project.dynamic = ['version', 'dependencies']", "are dynamic, known only once"),
        ("tool.poetry.dependencies.torch = '2'", "in [tool.poetry.dependencies]"),
        ("tool.poetry = 3", "poetry is no table"),
        ("project = 3", "project is no table"),
    ],
)
def test_a_project_that_does_not_say_what_it_requires_is_a_fault_in_words(
    tmp_path: Path, content: str, words: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(content)
    needs = folder_needs(tmp_path)
    assert words in needs.fault
    assert (needs.lines, needs.left_out) == ((), ())


def test_without_a_folder_nothing_is_required() -> None:
    assert folder_needs(None) == FolderNeeds()
