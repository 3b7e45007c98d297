"""The list of `make mutants` fits the product: every defect can be put in, and the test that must notice it exists."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
MUTANTS = tomllib.loads((ROOT / "tests/mutants/mutants.toml").read_text(encoding="utf-8"))["mutant"]
FIELDS = {"name", "promise", "contract", "file", "old", "new", "harm", "test"}


def test_the_text_that_a_mutant_changes_occurs_once_in_its_file() -> None:
    found = {
        mutant["name"]: (ROOT / "jupyter_tpu" / mutant["file"]).read_text(encoding="utf-8").count(mutant["old"])
        for mutant in MUTANTS
    }
    assert {name: count for name, count in found.items() if count != 1} == {}


def test_the_test_of_each_mutant_exists() -> None:
    named = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)
    tests = {
        f"{path.name}::{name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in named.findall(path.read_text(encoding="utf-8"))
    }
    assert {mutant["test"] for mutant in MUTANTS} <= tests


def test_each_mutant_is_complete_and_each_promise_has_three() -> None:
    assert all(mutant.keys() == FIELDS and mutant["old"] != mutant["new"] for mutant in MUTANTS)
    assert len({mutant["name"] for mutant in MUTANTS}) == len(MUTANTS)
    counts = Counter(mutant["promise"] for mutant in MUTANTS)
    assert all(counts[f"P{number}"] >= 3 for number in range(1, 11))


def test_the_test_of_each_mutant_runs_before_the_night() -> None:
    """`make test` runs it, at least its first case."""
    at_night = {name for path in (ROOT / "tests").rglob("test_*.py") for name in nightly_tests(path)}
    assert {mutant["test"] for mutant in MUTANTS} & at_night == set()


def nightly_tests(path: Path) -> set[str]:
    """The tests of a module that are marked for the night with all of their cases."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    marks = [ast.unparse(node.value) for node in tree.body if isinstance(node, ast.Assign) and is_pytestmark(node)]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    whole = any(IS_NIGHTLY.search(mark) for mark in marks)
    return {
        f"{path.name}::{node.name}"
        for node in functions
        if whole or any(IS_NIGHTLY.fullmatch(ast.unparse(decorator)) for decorator in node.decorator_list)
    }


IS_NIGHTLY = re.compile(r"pytest\.mark\.nightly|NIGHTLY")


def is_pytestmark(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)
