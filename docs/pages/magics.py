"""The page reference/magics.md, from the docstrings of the magics and the subcommands of %tpu."""

from __future__ import annotations

import inspect

from jupyter_tpu.local.magics import LocalMagics
from jupyter_tpu.notebook.magics.registration import Magics
from jupyter_tpu.notebook.magics.subcommands import SUBCOMMANDS
from pages.tables import page, table_of


def magics_page(generated: str) -> str:
    """The whole page; `generated` is the comment that says where it comes from."""
    found = [(name, method) for name, method in inspect.getmembers(Magics, callable) if not name.startswith("_")]
    named = [(f"%{name}", method) for name, method in found]
    elsewhere = [("%tpu and %%tpu in a kernel on your own machine", LocalMagics.tpu)]
    parts = [f"## {name}\n\n{inspect.getdoc(each)}" for name, each in named + elsewhere]
    return page(generated, "# Magics", *parts, subcommands_part())


def subcommands_part() -> str:
    words = [(f"`%tpu {word.name}`", word.summary) for word in SUBCOMMANDS.values()]
    lines = [(f"`{line}`", meaning) for word in SUBCOMMANDS.values() for line, meaning in word.usage.items()]
    tables = table_of(("subcommand", "meaning"), words), table_of(("line", "meaning"), lines)
    return page("## The subcommands of %tpu on a node", *tables).rstrip("\n")
