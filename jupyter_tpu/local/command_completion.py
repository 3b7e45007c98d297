"""Tab completion of the local ``%tpu``: the commands and options of the command line."""

from __future__ import annotations

import argparse
from functools import cache

from jupyter_tpu.cli.command_line import build_parser
from jupyter_tpu.local.command_runner import IN_A_TERMINAL


def completions(line: str) -> list[str]:
    """Return the completions at the end of `line`: commands first, then the options of the command."""
    words = line.split()[1:]
    known = _commands()
    is_first = not words or (len(words) == 1 and not line.endswith(" "))
    return sorted(known) if is_first else known.get(words[0], [])


@cache
def _commands() -> dict[str, list[str]]:
    """Return the options of each command."""
    # argparse has no public way to list subcommands; a cache, because building the parser takes a while.
    parser = build_parser()
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    found = {name: _options(each) for group in groups for name, each in group.choices.items()}
    return {"attach": ["--zone"], "detach": [], **{name: found[name] for name in found if name not in IN_A_TERMINAL}}


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return sorted(option for action in parser._actions for option in action.option_strings if option.startswith("--"))
