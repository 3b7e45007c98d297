from __future__ import annotations

import re

import pytest

from jupyter_tpu.notebook.slices.collected import Collector
from jupyter_tpu.notebook.slices.folding import CellError, Part, grouped, to_mimebundle

COMPLETE = [
    "<b>bold</b><br><p>one<p>two",
    "<table><tr><td>1</table>",
    "<table><thead><tr><th>a<th>b<tbody><tr><td>1<td>2<tr><td><p>3</td></tr></table>",
    "<div>\n<style scoped>td > a {}</style>\n<table border=1 class='x'><tbody><tr></tr></tbody></table></div>",
    "<ul><li>one<li>two<ul><li>three</li></ul></ul><dl><dt>a<dd>b</dl>",
    "<select><optgroup><option>1<option selected>2</select>",
    "<script>if (1 < 2) '<table>'</script>",
    "<script><!-- a --></script><style><!-- b --></style>",
    '<iframe src="a" width=1\n allowfullscreen\n></iframe><object data="x">none</object>',
    '<?xml a="b"?><svg width="1"><title>a</title><defs><style>* {}</style></defs><g><path d=""/></g></svg>',
    "<math><mfrac><mi>x</mi><mn>2</mn></mfrac><mspace/></math>",
    "<!DOCTYPE html><html><head><title>a</title><meta charset=utf-8></head><body><hr/><!-- <b> --></body></html>",
    "<audio controls='controls' >\n<source src='a' type='b' />\nnone\n</audio><x-y @click=\"a > b\"></x-y>",
    "1 < 2 &amp; 3",
    "",
]
INCOMPLETE = [
    "<!-- ",
    "<!--><div hidden>-->",
    "<!-- --!><div hidden> -->",
    "<![CDATA[<div>]]>",
    '<div class="',
    "</x <div>",
    # elements that are not closed
    *(f"<{name}>" for name in ("applet", "b", "caption", "div", "iframe", "marquee", "math", "noembed", "noframes")),
    *(f"<{name}>" for name in ("noscript", "object data=x", "plaintext", "script", "select", "style", "svg", "table")),
    *(f"<{name}>" for name in ("template", "textarea", "title", "xmp")),
    "<table><tr><td>1",
    "<object/>",
    "<svg><p></p><object/></svg>",
    # elements that are closed, but not opened, or in another order
    "</div></details></div><div hidden><div><div><div>",
    "</p>",
    "<b><p></b></p>",
    "<b>" + 9 * "<li><p>" + "</b>",
    # text that may be read as tags, or the other way round
    "<script><!--<script></script>",
    "<script><!--<script></script></script>",
    "<noembed></noembed ><noembed><b></noembed>",
    "<svg><foreignObject><p></foreignObject></svg>",
    "<select><style><input><object></style></select>",
    "<plaintext></plaintext>",
    "<template><col><style></template><div hidden></style></template>",
    # elements that end others, whose own end tags then end the fold
    "<ul><li><div><li></li></div></li></ul>",
    "<h3><div><h1><h2></h2></h1></div></h3>",
    "<table><tr><td><div><table><table></table></table></div></td></tr></table>",
    "<table><div><table></table></div></table>",
    "<a><a></a></a>",
]
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
        (said(error=FAILED), [said(error=FAILED)], "worker 1: same error"),
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
    [*((page, True) for page in COMPLETE), *((page, False) for page in INCOMPLETE)],
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
