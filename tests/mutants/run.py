"""Put small defects into a copy of the package, one at a time, and see whether a test of `make test` fails.

`mutants.toml` lists them. A defect that no test notices has survived: then a test is missing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "jupyter_tpu"
NOT_SHARED = (PACKAGE, ".git", ".hypothesis")
Mutant = dict[str, str]


def mutants() -> list[Mutant]:
    """The whole list."""
    found: list[Mutant] = tomllib.loads((ROOT / "tests/mutants/mutants.toml").read_text(encoding="utf-8"))["mutant"]
    return found


def places_of(test: str) -> list[str]:
    """The paths of ``test_x.py`` or ``test_x.py::test_y`` below the repository, in whichever folders they are."""
    module, colons, name = test.partition("::")
    paths = [path for path in sorted((ROOT / "tests").rglob(module)) if f"def {name}(" in path.read_text() or not name]
    assert paths, f"there is no {test}"
    return [f"{path.relative_to(ROOT)}{colons}{name}" for path in paths]


@contextmanager
def scratch(mutant: Mutant | None) -> Iterator[Path]:
    """A new folder like the repository, whose package is a copy with the defect."""
    with tempfile.TemporaryDirectory(prefix="jt-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder)
        for path in ROOT.iterdir():
            if path.name not in NOT_SHARED:
                (copy / path.name).symlink_to(path)
        shutil.copytree(ROOT / PACKAGE, copy / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant:
            file = copy / PACKAGE / mutant["file"]
            file.write_text(file.read_text(encoding="utf-8").replace(mutant["old"], mutant["new"]), encoding="utf-8")
        yield copy


def run_tests(folder: Path, tests: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """pytest's exit code and output; tests that hang have failed."""
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, "PYTHONPATH": path}  # processes that the tests start use the copy too
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not nightly", *tests]
    with (folder / "tests.log").open("w+", encoding="utf-8") as log:
        try:
            done = subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, timeout=timeout_s)
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = 1
        log.seek(0)
        return code, log.read()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["*"], help="names or promises; * stands for any text")
    parser.add_argument("--list", action="store_true", help="only print the list")
    parser.add_argument("--module", action="store_true", help="run the whole module of each test")
    parser.add_argument("--skip-unchanged", action="store_true", help="do not run the tests without a defect first")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for the tests of one defect")
    options = parser.parse_args(arguments)
    chosen = [each for each in mutants() if is_chosen(each, options.names)]
    if options.list:
        say(*(f"{each['promise']:<9}{each['name']:<45}{each['test']}" for each in chosen))
        return 0
    tests = [places_of(each["test"].partition("::")[0] if options.module else each["test"]) for each in chosen]
    if not options.skip_unchanged:
        with scratch(None) as folder:
            code, said = run_tests(folder, sorted({*chain(*tests)}), options.timeout * len(tests))
        if code:
            say(said, "The tests fail without any defect.")
            return code
    survivors = 0
    for mutant, its_tests in zip(chosen, tests, strict=True):
        began = time.monotonic()
        with scratch(mutant) as folder:
            code, said = run_tests(folder, its_tests, options.timeout)
        word = {0: "SURVIVED", 1: "caught"}.get(code, "NOT RUN")  # the tests could not be run: a larger number
        say(f"{word:<9}{mutant['promise']:<9}{mutant['name']:<45}{time.monotonic() - began:4.0f} s")
        if code > 1:
            say(said)
        survivors += code != 1
    say(f"{len(chosen) - survivors} of {len(chosen)} caught.")
    return 1 if survivors else 0


def is_chosen(mutant: Mutant, names: Sequence[str]) -> bool:
    return any(fnmatch(mutant[key], name) for key in ("name", "promise") for name in names)


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
