"""The list of `make mutants` fits the product: every defect can be put in, and the test that must notice it exists."""

from __future__ import annotations

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
