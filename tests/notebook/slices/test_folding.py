from __future__ import annotations

import re

import pytest

from jupyter_tpu.notebook.slices.collected import Collector
from jupyter_tpu.notebook.slices.folding import CellError, Part, grouped, to_mimebundle

FAILED = CellError(name="ValueError", value="bad", traceback=("\x1b[31mTraceback\x1b[0m", "ValueError: <bad>"))


def said(text: str = "", error: CellError | None = None, state: str = "", **facts: bool) -> Part:
    collector = Collector()
    if text:
        collector.write("stdout", text)
    return Part(output=collector.collected(), error=error, state=state, **facts)


@pytest.mark.parametrize(
    ("own", "others", "text"),
    [
        (said(), [said(), said()], ""),
        (said("a\n"), [said("a\n"), said("a\n"), said("a\n")], "workers 1-3: same output"),
        (said("a\n"), [said("a\n"), said("b\n")], "worker 1: same output\nworker 2:\nb"),
        (said(), [said("a\n"), said("a\n")], "workers 1, 2:\na"),
        (said("a\n"), [said("b\n"), said("c\n"), said("b\n")], "workers 1, 3:\nb\nworker 2:\nc"),
        (said("a\n"), [said(), said()], "workers 1, 2: no output"),
        (None, [said(), said("a\n")], "worker 2:\na"),
        (said(error=FAILED), [said(error=FAILED)], "worker 1: same output"),
        (
            said(),
            [said(), said("a\n", error=FAILED)],
            "worker 2: ValueError: bad\na\nTraceback\nValueError: <bad>",
        ),
        (said(), [said(state="still running", is_urgent=True)], "worker 1: still running"),
        (said("a\n"), [said("b\n", state="still running")], "worker 1: still running:\nb"),
    ],
)
def test_equal_outputs_are_shown_once(own, others, text):
    groups = grouped(own, dict(enumerate(others, 1)))
    assert to_mimebundle(groups)["text/plain"] == text


def test_an_error_is_open_and_an_output_is_folded_behind_its_first_line():
    groups = grouped(said("a"), {1: said("<b>\nrest\n"), 2: said(error=FAILED)})
    page = to_mimebundle(groups)["text/html"]
    folded, opened = re.findall("(<details.*?)<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    assert re.match(
        r'<details class="jp-tpu-Workers-1"><summary><small>worker 1&ensp;<code[^>]*>&lt;b&gt; …</code></small>',
        folded[0],
    )
    assert folded[1] == "&lt;b&gt;\nrest\n"
    attributes, _, summary = opened[0].partition(">")
    assert attributes == '<details class="jp-tpu-Workers-2 jp-tpu-mod-open" open'
    assert summary.startswith("<summary><small>worker 2: ValueError: bad</small></summary>")
    assert "\x1b" not in page
    assert "&lt;bad&gt;" in page


def test_a_picture_is_shown_as_one():
    collector = Collector()
    collector.show({"text/plain": "<Figure>", "image/png": b"png"})
    data = to_mimebundle(grouped(None, {1: Part(output=collector.collected())}))
    assert '<img src="data:image/png;base64,cG5n">' in data["text/html"]
    assert data["text/plain"] == "worker 1:\n<Figure>"


@pytest.mark.parametrize(
    ("page", "is_shown"),
    [
        ("<b>bold</b><br><p>one<p>two", True),
        ("<table><tr><td>1</table>", True),
        ("<script>if (1 < 2) '<table>'</script>", True),
        ("1 < 2 &amp; 3", True),
        ("<!-- ", False),
        ("<table><tr><td>1", False),
        ("<script>1", False),
        ("<textarea>", False),
        ('<div class="', False),
        ("<plaintext>", False),
    ],
)
def test_incomplete_html_does_not_hide_the_error_of_another_worker(page, is_shown):
    collector = Collector()
    collector.show({"text/plain": "as text", "text/html": page})
    parts = {1: Part(output=collector.collected()), 2: said(error=FAILED)}
    fold = to_mimebundle(grouped(None, parts))["text/html"].partition("worker 2")[0]
    assert (page in fold, "as text</pre>" in fold) == (is_shown, not is_shown)


def test_what_is_left_out_is_counted():
    groups = grouped(None, {1: said("x" * 100_000)})
    assert "34,464 characters left out in the middle; `%tpu logs --worker 1`" in to_mimebundle(groups)["text/plain"]
