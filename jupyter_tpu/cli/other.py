"""The commands `emulator` and `version`, which need no cloud."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jupyter_tpu import __version__
from jupyter_tpu.cli.options import add_json_option
from jupyter_tpu.cli.terminal import say, say_json

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    Commands = _SubParsersAction[argparse.ArgumentParser]


def add_commands(commands: Commands) -> None:
    """Add `emulator` and `version` to the command line."""
    # its own parser answers --help
    commands.add_parser("emulator", help="run an emulated Cloud TPU API on this machine", add_help=False)
    version = commands.add_parser("version", help="print the version")
    add_json_option(version)
    version.set_defaults(run=run_version)


def run_version(options: argparse.Namespace) -> int:
    """Print the version of this package."""
    if options.json:
        say_json({"version": __version__})
    else:
        say(__version__)
    return 0


def run_emulator(argv: Sequence[str]) -> int:
    """Run the emulator's own command line, which parses its options itself, and return its exit code."""
    from jupyter_tpu.emulator.cli.commands import main

    return main(list(argv)) or 0
