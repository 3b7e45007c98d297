"""What both sides of a synced folder contain after a sync, one case for each sentence."""

from __future__ import annotations

import pytest

from jupyter_tpu.sync.actions import Delete, DeleteFolder, MakeFolder, Move, Put, actions
from jupyter_tpu.sync.conflict_names import ConflictNames
from jupyter_tpu.sync.entries import Blocked, File, Folder, Link
from jupyter_tpu.sync.reconcile import Conflict, reconcile

NAMES = ConflictNames("my-node", "14:02")


def folder(text: str) -> Folder:
    """A folder from words such as `d/a=1` (a file of that content), `a=1x` (executable), `d/` and `s!` (blocked)."""
    result: Folder = {}
    for word in text.replace("COPY", "(from·my-node,·14:02)").split():
        path, mark, content = word.replace("·", " ").partition("=")
        *parents, name = path.rstrip("!").split("/")
        inside = result
        for parent in parents:
            inner = inside.setdefault(parent, {})
            assert isinstance(inner, dict)
            inside = inner
        if name:
            inside[name] = Blocked("it is a socket") if path.endswith("!") else entry(content) if mark else {}
    return result


def entry(content: str) -> File | Link:
    if content.startswith("->"):
        return Link(content[2:])
    return File(content.rstrip("x"), 1, content.endswith("x"))


@pytest.mark.parametrize(
    ("base", "local", "remote", "after"),
    [
        pytest.param("a=1", "a=2", "a=1", "a=2", id="a change here goes to the node"),
        pytest.param("a=1", "a=1", "a=2", "a=2", id="a change there comes here"),
        pytest.param("a=1", "a=2", "a=2", "a=2", id="the same change on both sides is no conflict"),
        pytest.param("", "a=1", "b=2", "a=1 b=2", id="new files go to the other side"),
        pytest.param("a=1 b=1", "b=1", "a=1", "", id="deletions go to the other side"),
        pytest.param("a=1", "", "a=2", "a=2", id="what was deleted here and changed there is kept"),
        pytest.param("a=1", "a=2", "", "a=2", id="what was changed here and deleted there is kept"),
        pytest.param("a.py=1", "a.py=2", "a.py=3", "a.py=2 a·COPY.py=3", id="two changes are both kept"),
        pytest.param("", "a=2", "a=3", "a=2 a·COPY=3", id="two new files of one name are both kept"),
        pytest.param("", "a=1 b=2", "a=1 c=3", "a=1 b=2 c=3", id="the first sync deletes nothing"),
        pytest.param("a=1", "a=1x", "a=2", "a=2x", id="a permission here and a change there are no conflict"),
        pytest.param("a=1", "a=2", "a=1x", "a=2x", id="a change here and a permission there are no conflict"),
        pytest.param("a=1x", "a=1", "a=1x", "a=1", id="a permission that was taken goes to the other side"),
        pytest.param("", "a=1x", "a=1", "a=1x", id="of two new equal files one permission is enough"),
        pytest.param("a=->x", "a=->y", "a=->z", "a=->y a·COPY=->z", id="two changes of a link are both kept"),
        pytest.param("a=1", "a=->y", "a=2", "a=->y a·COPY=2", id="a link here and a file there are both kept"),
        pytest.param("d/", "", "d/", "", id="an empty folder is deleted"),
        pytest.param("", "d/", "", "d/", id="an empty folder is created"),
        pytest.param("d/a=1 d/b=1", "", "d/a=2 d/b=1", "d/a=2", id="of a deleted folder only changes are kept"),
        pytest.param("d/a=1 d/b=1", "", "d/a=1", "", id="a folder from which both sides delete is deleted"),
        pytest.param("d/a=1", "d=2", "d/a=1", "d=2", id="a file replaces a folder"),
        pytest.param("d=1", "d/a=2", "d=1", "d/a=2", id="a folder replaces a file"),
        pytest.param("d/a=1", "d=2", "d/a=3", "d=2 d·COPY/a=3", id="a file here, a changed folder there"),
        pytest.param("d/a=1 d/b=1", "d/a=3 d/b=1", "d=2", "d/a=3 d·COPY=2", id="a changed folder here, a file there"),
        pytest.param("d/a=1 d/b=1", "d/a=1", "d=2", "d=2", id="a folder with nothing but deletions gives way"),
    ],
)
def test_both_sides_contain_the_same_after_a_sync(base: str, local: str, remote: str, after: str) -> None:
    outcome = reconcile(base=folder(base), local=folder(local), remote=folder(remote), names=NAMES)
    assert outcome.local == outcome.remote == outcome.base == folder(after)


@pytest.mark.parametrize(
    ("base", "local", "remote", "local_after", "remote_after", "base_after"),
    [
        pytest.param("a=1", "a!", "a=1", "a!", "a=1", "a=1", id="a file that can't be read is not deleted there"),
        pytest.param("a=1", "a!", "", "a!", "", "a=1", id="nor is it created again"),
        pytest.param("", "d/s! d/a=1", "", "d/s! d/a=1", "d/a=1", "d/a=1", id="a socket in a new folder stays here"),
        pytest.param("d/a=1", "d/a=1 d/s!", "", "d/s!", "", "d/", id="a deleted folder stays for its socket"),
        pytest.param("d/", "d/s!", "", "d/s!", "", "d/", id="and does not come back on the other side"),
        pytest.param("d/", "d/s!", "d=1", "d/s!", "d=1", "d/", id="a folder with a socket does not give way"),
    ],
)
def test_what_cannot_be_synced_is_left_alone(
    base: str, local: str, remote: str, local_after: str, remote_after: str, base_after: str
) -> None:
    outcome = reconcile(base=folder(base), local=folder(local), remote=folder(remote), names=NAMES)
    after = folder(local_after), folder(remote_after), folder(base_after)
    assert (outcome.local, outcome.remote, outcome.base) == after
    assert outcome.conflicts == ()


@pytest.mark.parametrize(
    ("base", "local", "remote", "local_after", "remote_after"),
    [
        pytest.param("", "", "A=1 a=2", "A=1", "A=1 a=2", id="of two names that are one here the first is synced"),
        pytest.param("a=1", "a=1", "A=2 a=1", "a=1", "A=2 a=1", id="the one that is already here stays"),
        pytest.param("a=1", "a=1", "A=1", "A=1", "A=1", id="a change of case there comes here"),
        pytest.param("a=1", "A=1", "a=2", "A=2", "A=2", id="a change of case here and of content there are both done"),
        pytest.param("", "", "d/A=1 d/a=2", "d/A=1", "d/A=1 d/a=2", id="also in a new folder"),
    ],
)
def test_names_that_differ_in_case_are_one_name_on_some_laptops(
    base: str, local: str, remote: str, local_after: str, remote_after: str
) -> None:
    versions = {"base": folder(base), "local": folder(local), "remote": folder(remote)}
    outcome = reconcile(**versions, names=NAMES, fold=str.casefold)
    assert (outcome.local, outcome.remote) == (folder(local_after), folder(remote_after))


def test_conflicts_are_listed() -> None:
    outcome = reconcile(base={}, local=folder("d/a=1 b=1"), remote=folder("d/a=2 b=2"), names=NAMES)
    assert outcome.conflicts == (
        Conflict("d/a", "d/a (from my-node, 14:02)"),
        Conflict("b", "b (from my-node, 14:02)"),
    )


@pytest.mark.parametrize(
    ("name", "taken", "copy"),
    [
        ("train.py", (), "train (from my-node, 14:02).py"),
        ("data.tar.gz", (), "data.tar (from my-node, 14:02).gz"),
        (".env", (), ".env (from my-node, 14:02)"),
        ("train.py", ("train (from my-node, 14:02).py",), "train (from my-node, 14:02, 2).py"),
        ("train (from my-node, 13:40).py", (), "train (from my-node, 14:02).py"),
        ("x" * 255, (), "x" * 233 + " (from my-node, 14:02)"),
        ("é\udcff" * 100 + ".txt", (), "é\udcff" * 76 + " (from my-node, 14:02).txt"),
    ],
)
def test_a_conflict_copy_is_named_after_the_node(name: str, taken: tuple[str, ...], copy: str) -> None:
    assert NAMES.name(name, taken) == copy


def test_a_renamed_folder_is_renamed_on_the_other_side() -> None:
    assert actions(folder("old/a=1 old/b=2 c=3"), folder("new/a=1 new/b=2 c=3")) == (
        Move("old", "new", folder("a=1 b=2")),
    )


def test_a_renamed_file_in_a_renamed_folder_is_not_sent_again() -> None:
    assert actions(folder("old/a=1 old/b=2"), folder("new/a=1 new/c=2")) == (
        MakeFolder("new"),
        Move("old/a", "new/a", entry("1")),
        Move("old/b", "new/c", entry("2")),
        DeleteFolder("old"),
    )


def test_copies_are_made_first_and_deletions_last() -> None:
    assert actions(folder("a=2 b=1 d/c=4"), folder("a=1 a·COPY=2 d=3")) == (
        Put("a (from my-node, 14:02)", entry("2")),
        Put("a", entry("1"), entry("2")),
        Delete("d/c", entry("4")),
        DeleteFolder("d"),
        Put("d", entry("3")),
        Delete("b", entry("1")),
    )
