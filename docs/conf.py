"""How Sphinx makes the site of these pages (``make site``).

The pages are plain Markdown, which reads well where the source is browsed. What only a site needs is added to them here
as they are read: the tables of contents, and the changelog.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ROOT = DOCS.parent

project = "jupyter_tpu"
version = release = json.loads((ROOT / "labextension/package.json").read_text(encoding="utf-8"))["version"]
extensions = ["myst_parser"]
myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 3
highlight_language = "text"
exclude_patterns = ["pages", "how-to/recipes"]
html_theme = "pydata_sphinx_theme"
html_title = "jupyter_tpu"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sourcelink = False
html_sidebars = {"changelog": [], "index": [], "trc": []}
html_theme_options = {
    "header_links_before_dropdown": 6,
    "logo": {"text": "jupyter_tpu"},
    "footer_start": [],
    "footer_end": [],
    "navbar_persistent": ["search-button"],  # the other form has a label that differs from its text
    "show_toc_level": 2,
    "show_version_warning_banner": False,
}

PICTURE = re.compile(r"!\[([^\]]+)\]\(([^)\s]+)-light\.png\)")
LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def complete(_app: Sphinx, docname: str, content: list[str]) -> None:
    """Add to a page what only the site needs; called by Sphinx for each page that it reads."""
    text = changelog() if docname == "changelog" else content[0]
    content[0] = in_both_themes(inside(docname, text)) + table_of_contents(docname, text)


def in_both_themes(text: str) -> str:
    """Show the picture of the theme that the site has, where the page names the light one."""
    return PICTURE.sub(r"![\1](\2-light.png){.only-light}\n![\1](\2-dark.png){.only-dark}", text)


def inside(docname: str, text: str) -> str:
    """Return the text without links to files that are not part of the site; their labels stay."""
    folder = posixpath.dirname(docname)

    def kept(link: re.Match[str]) -> str:
        label, target, _ = link.groups()
        leaves = posixpath.normpath(posixpath.join(folder, target)).startswith("..") and "://" not in target
        return label if leaves else link[0]

    return LINK.sub(kept, text)


def table_of_contents(docname: str, text: str) -> str:
    """A hidden table of contents for an index: the pages beside it and the sections below, as it links to them."""
    if posixpath.basename(docname) != "index":
        return ""
    sections = (target for target in linked_pages(text) if "/" not in target.removesuffix("/index.md"))
    pages = dict.fromkeys(sections)
    return "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"


def linked_pages(text: str) -> Iterator[str]:
    for _, target, _ in LINK.findall(text):
        if target.endswith(".md") and not target.startswith(".."):
            yield target


def changelog() -> str:
    """The released versions, and above them what has changed since, which is one sentence per file."""
    released = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    fragments = sorted(path for path in (ROOT / "changes").glob("*.md") if path.name != "README.md")
    sentences = [from_changes(path.read_text(encoding="utf-8").strip()) for path in fragments]
    lines = "\n".join(f"- {each}" for each in sentences)
    versions = released.partition("## ")
    return f"# Changes\n\n## Not released yet\n\n{lines}\n\n{versions[1]}{versions[2]}"


def from_changes(text: str) -> str:
    """A sentence of changes/ as a line of the changelog, with links from where that is."""
    return " ".join(text.split()).replace("](../docs/", "](")


def outdated(*_: object) -> list[str]:
    """The changelog follows files that Sphinx does not know."""
    return ["changelog"]


def setup(app: Sphinx) -> None:
    app.connect("source-read", complete)
    app.connect("env-get-outdated", outdated)
