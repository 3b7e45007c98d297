"""Write the pages of docs/ that follow from the code: reference.md, fidelity.md and packages.md.

Run by ``make docs``; with the name of a folder it writes there, so that a test can compare.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from fidelity import fidelity_page, table_of
from packages import packages_page

from jupyter_tpu.cli.command_line import build_parser
from jupyter_tpu.emulator import process
from jupyter_tpu.emulator.cli import control_commands, fault, fault_call, proxy, record
from jupyter_tpu.emulator.recording import replay
from jupyter_tpu.kernels.provisioner import TPUProvisioner
from jupyter_tpu.local.magics import LocalMagics
from jupyter_tpu.notebook.magics.registration import Magics
from jupyter_tpu.notebook.magics.subcommands import SUBCOMMANDS
from jupyter_tpu.server.app import TPUApp
from jupyter_tpu.server.websocket.kernel_socket import KernelSocket

# these have parsers of their own, so that the command line as a whole need not load them
EMULATOR_COMMANDS = {
    "emulator": process.parser(),
    "emulator fault link": fault.link_parser(),
    "emulator proxy": proxy.parser(),
    "emulator record": record.parser(),
    "emulator replay-check": replay.parser(),
    **{f"emulator {each.name}": each.parser() for each in fault_call.COMMANDS},
    **{f"emulator {name}": command.parser() for name, command in control_commands.COMMANDS.items()},
}

SCHEMAS = Path(__file__).parents[1] / "labextension" / "schema"
GENERATED = "<!-- written by docs/generate.py from the code; `make docs` renews it -->"


def reference_page() -> str:
    sections = [
        commands_section(),
        magics_section(),
        routes_section(),
        settings_section(TPUApp, KernelSocket, TPUProvisioner),
        lab_settings_section(),
    ]
    return "\n\n".join([GENERATED, "# Reference", *sections]) + "\n"


def commands_section() -> str:
    commands = next(each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction))
    helps = {each.dest: each.help or "" for each in commands._choices_actions}
    parsers = {**commands.choices, **EMULATOR_COMMANDS}
    helps.update({name: parser.description or "" for name, parser in EMULATOR_COMMANDS.items()})
    parts = (command_part(name, helps.get(name, ""), parser) for name, parser in parsers.items())
    return "## Commands\n\n" + "\n\n".join(parts)


def command_part(name: str, summary: str, parser: argparse.ArgumentParser) -> str:
    rows = [(argument_name(each), expanded(each)) for each in parser._actions if is_shown(each)]
    control_commands = f"\n\n{table_of(('argument', 'meaning'), rows)}" if rows else ""
    notes = f"\n\n{parser.epilog}" if parser.epilog else ""
    return f"### jupyter tpu {name}\n\n{sentence(summary)}{control_commands}{notes}"


def is_shown(action: argparse.Action) -> bool:
    return action.dest != "help" and action.help != argparse.SUPPRESS


def argument_name(action: argparse.Action) -> str:
    value = f" {action.metavar or action.dest.upper()}" if action.option_strings and action.nargs != 0 else ""
    return "`" + (", ".join(action.option_strings) or str(action.metavar or action.dest)) + value + "`"


def expanded(action: argparse.Action) -> str:
    return (action.help or "") % vars(action) if action.help else ""


def magics_section() -> str:
    found = [(name, method) for name, method in inspect.getmembers(Magics, callable) if not name.startswith("_")]
    named = [(f"%{name}", method) for name, method in found]
    elsewhere = [("%tpu and %%tpu in a kernel on your own machine", LocalMagics.tpu)]
    parts = [f"### {name}\n\n{inspect.getdoc(each)}" for name, each in named + elsewhere]
    return "\n\n".join(["## Magics", *parts, words_part()])


def words_part() -> str:
    words = [(f"`%tpu {word.name}`", word.summary) for word in SUBCOMMANDS.values()]
    lines = [(f"`{line}`", meaning) for word in SUBCOMMANDS.values() for line, meaning in word.usage.items()]
    tables = table_of(("word", "meaning"), words), table_of(("line", "meaning"), lines)
    return "### The words of %tpu on a node\n\n" + "\n\n".join(tables)


def routes_section() -> str:
    text = resources.files("jupyter_tpu").joinpath("server/rest-api.yml").read_text(encoding="utf-8")
    rows = list(routes_of(yaml.safe_load(text)))
    return "## REST routes\n\n" + table_of(("route", "meaning"), rows)


def routes_of(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            if verb in {"get", "post", "put", "patch", "delete"}:
                yield f"`{verb.upper()} {path}`", operation.get("summary", "")


def settings_section(*classes: type[Any]) -> str:
    rows = [row for each in classes for row in own_traits(each)]
    return "## Settings\n\n" + table_of(("trait", "meaning"), rows)


def lab_settings_section() -> str:
    schemas = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(SCHEMAS.glob("*.json"))]
    rows = [
        (f"{schema['title']}: `{name}`", f"{setting['description']} Default: `{json.dumps(setting['default'])}`.")
        for schema in schemas
        for name, setting in schema["properties"].items()
    ]
    return "## Settings of JupyterLab\n\n" + table_of(("setting", "meaning"), rows)


def own_traits(configurable: Any) -> Iterator[tuple[str, str]]:
    for name, trait in sorted(configurable.class_traits(config=True).items()):
        if trait.this_class is configurable:
            yield f"`{configurable.__name__}.{name}`", trait.help


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""


PAGES = {
    "fidelity.md": lambda: fidelity_page(GENERATED),
    "packages.md": lambda: packages_page(GENERATED),
    "reference.md": reference_page,
}


def write_pages(folder: Path) -> None:
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
