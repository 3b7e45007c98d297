"""The page reference/errors.md, from the tree of exceptions."""

from __future__ import annotations

from collections.abc import Iterator

from jupyter_tpu import errors
from pages.tables import page, table_of

INTRODUCTION = """Every error message explains what failed, what exists now and may cost money, and what to do. Programs
can use the error's code, which does not change between versions. The code is included in responses of the REST API
(with the status below), in `--json` output, and in events."""


def errors_page(generated: str) -> str:
    """The whole page; `generated` is the comment that says where it comes from."""
    rows = ((f"`{each.code}`", str(each.status), meaning_of(each)) for each in below(errors.TpuError))
    return page(generated, "# Error codes", INTRODUCTION, table_of(("code", "status", "meaning"), rows))


def below(error: type[errors.TpuError]) -> Iterator[type[errors.TpuError]]:
    """The kinds of an error that every front end can meet, in the order of the tree; `errors` defines them."""
    for kind in error.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield kind
            yield from below(kind)


def meaning_of(error: type[errors.TpuError]) -> str:
    return (error.__doc__ or "").partition("\n\n")[0]
