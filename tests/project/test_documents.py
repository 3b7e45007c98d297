"""What the documents say is so."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_tpu.cli.overview import Overview

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("changes/*.md")])

LINK = re.compile(r"\]\(([^)#\s]+)\)")
COMMAND = re.compile(r"jupyter tpu ([a-z][a-z-]*)")
MAKE_TARGET = re.compile(r"`make ([a-z]+)`")

TEXTS = {document: document.read_text(encoding="utf-8") for document in DOCUMENTS}


def test_every_link_leads_to_a_file() -> None:
    assert [
        f"{document}: {target}"
        for document, text in TEXTS.items()
        for target in LINK.findall(text)
        if "://" not in target and not (document.parent / target).exists()
    ] == []


def test_every_command_that_is_named_exists() -> None:
    names = set(commands().choices)
    unknown = {document: {*COMMAND.findall(text)} - names for document, text in TEXTS.items()}
    assert {document: words for document, words in unknown.items() if words} == {}


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    unknown = {document: {*MAKE_TARGET.findall(text)} - targets for document, text in TEXTS.items()}
    assert {document: names for document, names in unknown.items() if names} == {}


def test_every_variable_that_users_may_set_is_in_the_reference_and_in_the_code() -> None:
    listed = re.findall(r"^\| `(JUPYTER_TPU_[A-Z_]+)`", (ROOT / "docs/reference/settings.md").read_text(), re.MULTILINE)
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "jupyter_tpu").rglob("*.py"))
    assert len(listed) > 5
    assert [name for name in listed if f'"{name}"' not in code] == []
    named = {name for text in TEXTS.values() for name in re.findall(r"JUPYTER_TPU_[A-Z_]+", text)}
    of_the_tests = {name for name in named if name.startswith("JUPYTER_TPU_PYTHON_")}
    assert named - of_the_tests == set(listed)


def test_every_page_of_the_documentation_is_in_an_index() -> None:
    pages = {page for page in DOCUMENTS if page.is_relative_to(ROOT / "docs") and page.name != "index.md"}
    indexes = [page for page in DOCUMENTS if page.name == "index.md"]
    linked = {
        (index.parent / target).resolve()
        for index in indexes
        for target in LINK.findall(index.read_text(encoding="utf-8"))
    }
    assert pages - linked == set()


def test_every_package_starts_at_a_module_that_exists() -> None:
    rows = re.findall(
        r"^\| (`[a-z]+/`) \|.*\| ([^|]+) \|$", (ROOT / "docs/explanation/architecture.md").read_text(), re.MULTILINE
    )
    places = [
        f"{package[1:-2]}/{module}" for package, modules in rows for module in re.findall(r"`([a-z_/]+)`", modules)
    ]
    assert len(places) > 12
    assert [place for place in places if not (ROOT / "jupyter_tpu" / f"{place}.py").exists()] == []


def test_the_tour_names_files_that_exist() -> None:
    rows = re.findall(r"^\| an? .*", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    named = {row: re.findall(r"`([a-z_]+(?:/[a-z_]*)*(?:\.(?:py|ts|tsx|yml|json))?)`", row) for row in rows}
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    paths = [name for names in named.values() for name in names if "/" in name or "." in name]
    assert len(paths) > 20
    assert [path for path in paths if not any(f"/{path.rstrip('/')}" in f"/{file}" for file in files)] == []


def test_generated_pages_follow_the_code(tmp_path):
    subprocess.run([sys.executable, "docs/generate.py", str(tmp_path)], cwd=ROOT, check=True)
    pages = [page.relative_to(tmp_path) for page in tmp_path.rglob("*.md")]
    assert [page for page in pages if (tmp_path / page).read_text() != (ROOT / "docs" / page).read_text()] == [], (
        "run `make docs`"
    )


@pytest.mark.parametrize("name", ["commands", "events", "magics", "rest-api", "settings"])
def test_the_reference_explains_every_option_magic_route_event_and_setting(name):
    reference, _, _ = (ROOT / f"docs/reference/{name}.md").read_text(encoding="utf-8").partition("\n## Records\n")
    assert re.findall(r"^\| (.+?) \|\s*\|$", reference, re.MULTILINE) == []


def commands() -> argparse._SubParsersAction[argparse.ArgumentParser]:
    return next(action for action in Overview()._actions if isinstance(action, argparse._SubParsersAction))
