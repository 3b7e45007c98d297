"""The page reference/magics.md, from the docstrings of the magics and the subcommands of %tpu."""

from __future__ import annotations

import inspect

from jupyter_tpu.commands.grammar import NOTEBOOK
from jupyter_tpu.commands.shared import ON_NODE
from jupyter_tpu.local.magics import LocalMagics
from jupyter_tpu.notebook.magics.registration import Magics
from pages.tables import page, table_of


def magics_page(generated: str) -> str:
    """The whole page; `generated` is the comment that says where it comes from."""
    found = [(name, method) for name, method in inspect.getmembers(Magics, callable) if not name.startswith("_")]
    named = [(f"%{name}", method) for name, method in found]
    elsewhere = [("%tpu and %%tpu in a kernel on your own machine", LocalMagics.tpu)]
    parts = [f"## {name}\n\n{inspect.getdoc(each)}" for name, each in named + elsewhere]
    return page(generated, "# Magics", *parts, subcommands_part())


def subcommands_part() -> str:
    words = [(f"`%tpu {command.name}`", command.here) for command in ON_NODE.values()]
    lines = [(f"`{line}`", meaning) for command in ON_NODE.values() for line, meaning in command.examples.items()]
    options = [
        (f"`%tpu {command.name} {', '.join(each.names)}`", each.settings["help"])
        for command in ON_NODE.values()
        for each in command.all_arguments(NOTEBOOK)
        if each.is_option
    ]
    tables = (
        table_of(("subcommand", "meaning"), words),
        table_of(("line", "meaning"), lines),
        table_of(("option", "meaning"), options),
    )
    return page("## The subcommands of %tpu on a node", *tables).rstrip("\n")
