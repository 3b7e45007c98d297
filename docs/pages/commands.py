"""The page reference/commands.md, from the parsers of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from jupyter_tpu.cli.arguments import COMMANDS, GROUPS
from jupyter_tpu.cli.overview import Overview
from jupyter_tpu.emulator import process
from jupyter_tpu.emulator.cli import control_commands, fault, fault_call, proxy, record
from jupyter_tpu.emulator.recording import replay_check
from pages.tables import page, sentence, table_of

INTRODUCTION = """Commands that stop or delete something ask for confirmation. Commands that create a node show
its price, and ask only if the price is unknown. `--yes` skips the confirmation. With `--json`, a command prints one
JSON document and nothing else. `jupyter tpu COMMAND --help` shows the same information."""

# these have parsers of their own, so that the command line as a whole need not load them
EMULATOR_COMMANDS = {
    "emulator": process.parser(),
    "emulator fault link": fault.link_parser(),
    "emulator proxy": proxy.parser(),
    "emulator record": record.parser(),
    "emulator replay-check": replay_check.parser(),
    **{f"emulator {each.name}": each.parser() for each in fault_call.COMMANDS},
    **{f"emulator {name}": command.parser() for name, command in control_commands.COMMANDS.items()},
}


def commands_page(generated: str) -> str:
    """The whole page; `generated` is the comment that says where it comes from."""
    return page(generated, "# Commands", INTRODUCTION, *sections())


def sections() -> Iterator[str]:
    """A section for each group of the overview; commands of the emulator follow `emulator`."""
    helps = {name: command.help for name, command in COMMANDS.items()}
    parsers = {**Overview().commands.choices, **EMULATOR_COMMANDS}
    helps.update({name: parser.description or "" for name, parser in EMULATOR_COMMANDS.items()})
    for group, commands in GROUPS.items():
        yield f"## {group}"
        for command in commands:
            of_it = [each for each in parsers if each == command.name or each.startswith(f"{command.name} ")]
            yield from (command_part(each, helps.get(each, ""), parsers[each]) for each in of_it)


def command_part(name: str, summary: str, parser: argparse.ArgumentParser) -> str:
    rows = [(argument_name(each), expanded(each)) for each in parser._actions if is_shown(each)]
    arguments = f"\n\n{table_of(('argument', 'meaning'), rows)}" if rows else ""
    notes = f"\n\n{parser.epilog}" if parser.epilog else ""
    return f"### jupyter tpu {name}\n\n{sentence(summary)}{arguments}{notes}"


def is_shown(action: argparse.Action) -> bool:
    return action.dest != "help" and action.help != argparse.SUPPRESS


def argument_name(action: argparse.Action) -> str:
    value = f" {action.metavar or action.dest.upper()}" if action.option_strings and action.nargs != 0 else ""
    return "`" + (", ".join(action.option_strings) or str(action.metavar or action.dest)) + value + "`"


def expanded(action: argparse.Action) -> str:
    return (action.help or "") % vars(action) if action.help else ""
