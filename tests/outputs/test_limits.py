"""What is too much for a page leaves a word in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jupyter_tpu.outputs import Limits, Reducer, compact, render
from jupyter_tpu.outputs.rendering import format_bytes

if TYPE_CHECKING:
    from conftest import Recorded

Reduce = Callable[..., Reducer]


def test_long_text_is_shown_with_its_beginning_and_its_end(recorded: Recorded, reduce: Reduce) -> None:
    lines = [f"line {number:07}\n" for number in range(100_000)]
    printed = [
        recorded.said("stream", name="stdout", text="".join(lines[at : at + 100])) for at in range(0, 100_000, 100)
    ]

    rendered = render(reduce([recorded.asked("r"), *printed]).requests["r"])

    text = rendered.outputs[0]["text"]
    assert len(text) < 200_100
    assert text.startswith(lines[0])
    assert text.endswith(lines[-1])
    assert "line 0001537\n… 1.1 MB more on the node\nline 00" in text
    assert rendered.omitted_bytes + len(text) - len("… 1.1 MB more on the node\n") == 1_300_000


def test_what_the_reader_left_out_is_told_where_it_is_missing(recorded: Recorded) -> None:
    reducer = Reducer()
    reducer.feed(1, *recorded.asked("r"))
    reducer.feed(2, *recorded.said("stream", name="stdout", text="first\n"))
    reducer.omit("r", 812_000_000)
    reducer.feed(900, *recorded.said("stream", name="stdout", text="last\n"))

    rendered = render(reducer.requests["r"])

    assert rendered.outputs[0]["text"] == "first\n… 812 MB more on the node\nlast\n"
    assert rendered.omitted_bytes == 812_000_000


def test_displays_beyond_the_limit_are_named(recorded: Recorded, reduce: Reduce) -> None:
    images = [
        recorded.said("display_data", data={"image/png": "x" * size}, metadata={"a": 1}, transient={"display_id": name})
        for name, size in (("small", 100), ("large", 9000), ("small-2", 100))
    ]
    request = reduce([recorded.asked("r"), *images]).requests["r"]

    rendered = render(request, Limits(bundles=1000))

    assert [list(output["data"]) for output in rendered.outputs] == [["image/png"], ["text/plain"], ["image/png"]]
    assert "9.1 kB of image/png" in rendered.outputs[1]["data"]["text/plain"]
    assert rendered.outputs[1]["transient"] == {"display_id": "large"}
    assert rendered.omitted_bytes > 9000


def test_the_middle_of_very_many_outputs_is_left_out(recorded: Recorded, reduce: Reduce) -> None:
    printed = [recorded.said("stream", name=("stdout", "stderr")[n % 2], text=f"{n}\n") for n in range(1000)]
    request = reduce([recorded.asked("r"), *printed]).requests["r"]

    outputs = render(request, Limits(outputs=8)).outputs

    assert [output.get("text") for output in outputs] == ["0\n", "1\n", None, *(f"{n}\n" for n in range(994, 1000))]
    assert outputs[2]["data"] == {"text/plain": "… 992 more outputs on the node"}
    assert len(compact(request, render(request, Limits(outputs=8)))) == 1 + 9


def test_a_long_traceback_loses_its_middle(recorded: Recorded, reduce: Reduce) -> None:
    lines = [f"frame {number}" for number in range(10_000)]
    error = recorded.said("error", ename="RecursionError", evalue="deep", traceback=lines)
    request = reduce([recorded.asked("r"), error]).requests["r"]

    output = render(request, Limits(error_head=100, error_tail=100)).outputs[0]

    assert (output["ename"], output["evalue"]) == ("RecursionError", "deep")
    assert output["traceback"][0] == "frame 0"
    assert output["traceback"][-1] == "frame 9999"
    assert sum(map(len, output["traceback"])) < 300


def test_displays_that_nobody_shows_any_more_are_forgotten(recorded: Recorded, reduce: Reduce) -> None:
    def frame(number: int) -> list[tuple[str, list[bytes]]]:
        named = {"metadata": {}, "transient": {"display_id": f"d{number}"}}
        return [recorded.said("clear_output", wait=True), recorded.said("display_data", data={}, **named)]

    reducer = reduce([recorded.asked("r"), *(entry for number in range(100) for entry in frame(number))])

    assert len(reducer._bundles) == 1


def test_sizes_are_told_in_words() -> None:
    assert [format_bytes(size) for size in (7, 1500, 15_000, 9_999_999, 812_000_000, 3 * 10**9)] == [
        "7 bytes",
        "1.5 kB",
        "15 kB",
        "10.0 MB",
        "812 MB",
        "3.0 GB",
    ]
