"""Write the pages of docs/ that follow from the code; docs/pages/ has a module for each.

Run by ``make docs``; with the name of a folder it writes there, so that a test can compare.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pages.commands import commands_page
from pages.errors import errors_page
from pages.events import events_page
from pages.fidelity import fidelity_page
from pages.magics import magics_page
from pages.packages import packages_page
from pages.rest_api import rest_api_page
from pages.settings import settings_page

GENERATED = "<!-- written by docs/generate.py from the code; `make docs` renews it -->"

PAGES = {
    "explanation/fidelity.md": fidelity_page,
    "reference/commands.md": commands_page,
    "reference/errors.md": errors_page,
    "reference/events.md": events_page,
    "reference/magics.md": magics_page,
    "reference/packages.md": packages_page,
    "reference/rest-api.md": rest_api_page,
    "reference/settings.md": settings_page,
}


def write_pages(folder: Path) -> None:
    for name, page in PAGES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(GENERATED), encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
