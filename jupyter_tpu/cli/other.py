"""The commands `emulator` and `version`, which don't need a cloud."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from jupyter_tpu import __version__
from jupyter_tpu.cli.terminal import echo, echo_json


def run_version(options: argparse.Namespace) -> int:
    """Print the version of this package."""
    if options.json:
        echo_json({"version": __version__})
    else:
        echo(__version__)
    return 0


def run_emulator(argv: Sequence[str]) -> int:
    """Run the emulator's command line, which parses its own options, and return the exit code."""
    from jupyter_tpu.emulator.cli.commands import main

    return main(list(argv)) or 0
