"""What the folder of a notebook requires is read from the files that people keep for that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_tpu.kernels.environments.requirements import FolderNeeds, folder_needs


@pytest.mark.parametrize(
    ("files", "needs"),
    [
        ({}, FolderNeeds()),
        (
            {"requirements.txt": "numpy>=2 # new\n\n# words\nflax[all]==0.12 \\\n  --hash=sha256:12\nnumpy>=2\n"},
            FolderNeeds(
                source="requirements.txt",
                lines=("numpy>=2", "flax[all]==0.12"),
                left_out=("--hash of flax[all]==0.12 (installed there unchecked)",),
            ),
        ),
        (
            {"requirements.txt": "a==1\t--hash=md5:1 --hash=md5:2\na==1\nb @ https://me@c/d --hash=x\n-e . --hash=x"},
            FolderNeeds(
                source="requirements.txt",
                lines=("a==1", "b @ https://me@c/d"),
                left_out=("-e .", "--hash of a==1, b @ https://…@c/d (installed there unchecked)"),
            ),
        ),
        (
            {
                "requirements.txt": "-r requirements.txt\n" * 20 + "-r ./a.txt\n-r a.txt\nb",
                "a.txt": "-r a.txt\na\n" * 20,
            },
            FolderNeeds(source="requirements.txt", lines=("a", "b")),
        ),
        (
            {
                "requirements.txt": "-r \"a b.txt\"\n--requirement='c d.txt'\n-r e f.txt\n-r https://u:p@g/h.txt",
                "a b.txt": "a",
                "c d.txt": "c",
                "e f.txt": "e",
            },
            FolderNeeds(source="requirements.txt", lines=("a", "c", "e"), left_out=("-r https://…@g/h.txt",)),
        ),
        (
            {"requirements.txt": "a\t>=2\nb;\tpython_version\t> '3.9'\t# new"},
            FolderNeeds(source="requirements.txt", lines=("a >=2", "b; python_version > '3.9'")),
        ),
        (
            {"pyproject.toml": "project.dependencies = ['a\t>=2']"},
            FolderNeeds(source="pyproject.toml", lines=("a >=2",)),
        ),
        (
            {"requirements.txt": "".join(f"a{number}\n" for number in range(1001)) + "a1\n" * 5000},
            FolderNeeds(source="requirements.txt", lines=tuple(f"a{number}" for number in range(1001))),
        ),
        (
            {"requirements.txt": "a==1" + " --hash=sha256:1" * 1000},
            FolderNeeds(
                source="requirements.txt",
                lines=("a==1",),
                left_out=("--hash of a==1 (installed there unchecked)",),
            ),
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
        ("-r pipe", "pipe is not a regular file"),
        ("-r /dev/zero", "zero is not a regular file"),
        ("-r .", "Is a directory"),
        ("-r large.txt", "large.txt is larger than 256 KiB"),
        ("".join(f"a{number}\n" for number in range(5001)), "lists 5001 requirements; the limit is 5000"),
        (f"a @ https://u:p@b/{'c' * 2000}", "'a @ https://…@b/cc"),
        (f"a @ https://u:p@b/{'c' * 2000}", "has 2018 characters; the limit is 2000"),
    ],
)
def test_files_that_are_too_much_are_a_fault_in_words(tmp_path: Path, content: str, words: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large.txt").write_bytes(b"#" * (256 * 1024 + 1))
    (tmp_path / "requirements.txt").write_text(content)
    needs = folder_needs(tmp_path)
    assert words in needs.fault
    assert (needs.source, needs.lines, needs.left_out) == ("requirements.txt", (), ())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f"a = {'[' * 3000}{']' * 3000}", "its brackets are nested too deeply"),
        ("project.dependencies = ['']", "must be a list of requirements"),
        ("project.dependencies = 'numpy'", "must be a list of requirements"),
        ("project.dependencies = {numpy = '2'}", "must be a list of requirements"),
        ("project.dependencies = ['numpy', 2]", "must be a list of requirements"),
        ("project.dynamic = ['version', 'dependencies']", "are dynamic and known only once"),
        ("tool.poetry.dependencies.torch = '2'", "in [tool.poetry.dependencies]"),
        ("tool.poetry = 3", "poetry is not a table"),
        ("project = 3", "project is not a table"),
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
