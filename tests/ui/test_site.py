"""The documentation's site in a browser: every page can be used by everyone, in both themes."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page

ROOT = Path(__file__).parents[2]
AXE = ROOT / "labextension/node_modules/axe-core/axe.min.js"
VIOLATIONS = """async () => {
  const found = await axe.run();
  return found.violations.map(each => `${each.id}: ${each.nodes.map(node => node.target).slice(0, 5).join(', ')}`);
}"""

pytestmark = [pytest.mark.system("chromium"), pytest.mark.nightly]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line for each on standard error."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make site` makes it."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--fail-on-warning", "-d", str(folder / "doctrees")]
    subprocess.run([sys.executable, "-m", "sphinx", *options, "docs", str(folder / "html")], cwd=ROOT, check=True)
    return folder / "html"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def page(browser: BrowserContext) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def pages_of(site: Path) -> list[str]:
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if "_static" not in path.parts)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_an_accessibility_problem(site: Path, address: str, page: Page, theme: str) -> None:
    page.emulate_media(color_scheme=theme)
    problems = {}
    for path in pages_of(site):
        page.goto(f"{address}/{path}")
        page.add_script_tag(path=AXE)
        if found := page.evaluate(VIOLATIONS):
            problems[path] = found
    assert problems == {}


def test_the_changelog_has_every_sentence_of_changes(site: Path) -> None:
    sentences = [path for path in (ROOT / "changes").glob("*.md") if path.name != "README.md"]
    _, _, unreleased = (site / "changelog.html").read_text(encoding="utf-8").partition("Not released yet")
    assert unreleased.count("<li><p>") >= len(sentences)


def test_a_page_requests_nothing_from_elsewhere(address: str, page: Page) -> None:
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(f"{address}/index.html", wait_until="networkidle")
    assert [url for url in requested if not url.startswith(address)] == []
