"""The page explanation/fidelity.md: what the emulator imitates, how that is known, and which tests show it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

import jupyter_tpu.emulator
from jupyter_tpu.emulator.resources.behaviours import Behaviour, Standing, behaviours
from pages.tables import page, table_of

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/emulator/golden"
TESTS = ROOT / "tests"

INTRODUCTION = """The emulated cloud behaves like the real one if the real behaviour is known. Each behaviour is
*recorded* (someone published a response of the real service, or a request of a real client), *documented* (in Google's
documentation or packages) or *assumed* (no source was found, so don't rely on it). This project has not compared the
emulator with the real service yet. If you can, help with `jupyter tpu emulator record` and `replay-check`."""

NEVER_CLAIMED = (
    "the exact fields and defaults of a READY node's JSON: no full response of the v2 API was found",
    "the wording of 404 NOT_FOUND and 409 ALREADY_EXISTS (E14), and of errors about invalid names, labels and fields",
    "when, and with which message, the real service refuses to stop a slice with several workers",
    "durations: they are round numbers in virtual time, within the observed range",
    "capacity, and the lifetime of spot nodes: you or a test set the capacity",
    "the namespaces of guest attributes of TPU workers (the keys ssh-ed25519 and hostname are certain)",
    "current prices: the ledger uses dated list prices from public pages",
    "the wording of errors about masks (fields=) and batches, and which masks other than unknown names Google refuses",
    "whether BigQuery accepts the queries of `jupyter tpu cost --billed`: the emulator doesn't interpret SQL",
    "TPU7x: the Cloud TPU API does not offer it",
    "the speed of a chip, and other properties of libtpu: JAX on an emulated worker runs on the CPU",
)

CLIENTS = (
    ("google-cloud-tpu, gRPC (asyncio)", "in every run of the checks", "tests/conformance"),
    ("google-cloud-tpu, gRPC (blocking)", "in every run of the checks", "tests/conformance, tests/emulator/golden"),
    ("google-cloud-tpu, REST", "in every run of the checks", "tests/conformance"),
    ("googleapiclient, tpu v2 and v2alpha1 by discovery", "in every run of the checks", "tests/conformance"),
    ("googleapiclient, cloudbilling, serviceusage and bigquery", "in every run of the checks", "tests/conformance"),
    ("google-cloud-quotas, google-cloud-billing", "in every run of the checks", "tests/conformance"),
    ("tpunicorn2", "in every run of the checks", "tests/conformance"),
    ("tpu-info", "in every run of the checks", "tests/conformance"),
    ("gcloud", "if it is installed", "tests/conformance"),
    ("Google's samples of google-cloud-tpu (python-docs-samples)", "by `make conformance`", "tests/conformance"),
    ("SkyPilot's TPU provisioner", "by `make conformance`", "tests/conformance"),
    ("dstack, marin-iris, gpuhunt", "not run; checked against their source", ""),
)

MOST_LINKS = 4
ORDER = (Standing.ASSUMED, Standing.DOCUMENTED, Standing.RECORDED)


def fidelity_page(generated: str) -> str:
    """What is only assumed comes first."""
    load_all(jupyter_tpu.emulator)
    shown = Shown(list(golden_cases()), dict(marked_tests()))
    parts = [
        generated,
        "# How accurate the emulator is",
        INTRODUCTION,
        summary(shown),
        "## Never claimed\n\nThe emulator makes no claim about\n\n"
        + ";\n".join(f"- {each}" for each in NEVER_CLAIMED)
        + ".",
        clients_section(),
        *(standing_section(standing, shown) for standing in ORDER),
    ]
    return page(*parts)


class Shown:
    """Which cases and tests show which behaviour."""

    def __init__(self, cases: list[tuple[str, dict[str, Any]]], tests: Mapping[str, list[str]]) -> None:
        self.cases = cases
        self._by_behaviour: dict[str, list[str]] = defaultdict(list)
        for file, case in cases:
            for name in case["shows"]:
                self._by_behaviour[name].append(f"[{case['name']}](../../tests/emulator/golden/{file})")
        for name, places in tests.items():
            self._by_behaviour[name] += places
        # a misspelt mark would otherwise take a test from the page without a word
        known = {behaviour.name for standing in ORDER for behaviour in of(standing)}
        if unknown := self._by_behaviour.keys() - known:
            raise ValueError(f"No behaviour has the name that these cases or tests show: {sorted(unknown)}")

    def of(self, behaviour: Behaviour) -> list[str]:
        return self._by_behaviour[behaviour.name]


def load_all(package: Any) -> None:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def golden_cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """File and case."""
    for path in sorted(GOLDEN.glob("*.yaml")):
        for case in yaml.safe_load(path.read_text(encoding="utf-8"))["cases"]:
            yield path.name, case


def marked_tests() -> Iterable[tuple[str, list[str]]]:
    """Behaviours that tests are marked with by ``pytest.mark.shows``, each with links to them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for function in ast.parse(path.read_text(encoding="utf-8")).body:
            for name in shown_by(function):
                found[name].append(f"[{function.name}](../../{path.relative_to(ROOT).as_posix()})")
    return found.items()


def shown_by(function: ast.stmt) -> Iterator[str]:
    for mark in getattr(function, "decorator_list", []):
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.shows":
            yield from (ast.literal_eval(argument) for argument in mark.args)


def summary(shown: Shown) -> str:
    rows = [summary_row(standing, shown) for standing in reversed(ORDER)]
    header = ("how it is known", "behaviours", "of these with cases or marked tests", "golden cases")
    return table_of(header, rows) + (
        "\n\nA golden case is a request with the exact expected response, except for named placeholders "
        "([tests/emulator/golden](../../tests/emulator/golden)); each is run over REST and, if possible, over gRPC. "
        "A behaviour without a case is tested elsewhere in tests/emulator or tests/conformance, or not at all."
    )


def summary_row(standing: Standing, shown: Shown) -> tuple[str, ...]:
    behaviours_of_it = of(standing)
    with_cases = sum(bool(shown.of(each)) for each in behaviours_of_it)
    cases = sum(case["standing"] == standing.value for _, case in shown.cases)
    return (standing.value, str(len(behaviours_of_it)), str(with_cases), str(cases))


def clients_section() -> str:
    return "## Clients\n\n" + table_of(("client", "run", "where"), CLIENTS)


def of(standing: Standing) -> list[Behaviour]:
    return [each for each in behaviours() if each.standing is standing]


def standing_section(standing: Standing, shown: Shown) -> str:
    lines = [behaviour_line(each, shown.of(each)) for each in of(standing)]
    return f"## {standing.value.capitalize()} ({len(lines)})\n\n" + "\n".join(lines)


def behaviour_line(behaviour: Behaviour, shown: list[str]) -> str:
    source = "" if behaviour.standing is Standing.ASSUMED else f" *({escaped(behaviour.source)})*"
    more = f" and {len(shown) - MOST_LINKS} more" if len(shown) > MOST_LINKS else ""
    cases = f" Shown by {', '.join(shown[:MOST_LINKS])}{more}." if shown else ""
    return f"- **{behaviour.name}** {escaped(behaviour.statement)}{source}{cases}"


def escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")
