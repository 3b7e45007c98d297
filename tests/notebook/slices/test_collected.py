from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.notebook.slices.collected import LIMIT, Collected, Collector, comparable


def collected(*writes: tuple[str, str]) -> Collected:
    collector = Collector()
    for stream, text in writes:
        collector.write(stream, text)
    return collector.collected()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a\n[Gloo] Rank 1 is connected to 3 peer ranks.\nb\n", "a\nb\n"),
        ("[Gloo] Rank 1 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3", ""),
        ("I0000 00:00:1731.123456    1234 tpu.cc:10] up\n", "I0000 00:00:1731.123456    1234 tpu.cc:10] up\n"),
        ("W1122 05:04:03.123456   77 a.cc:1] slow\n", "W1123 06:14:13.999999 1277 a.cc:1] slow\n"),
        ("2026-11-22 05:04:03.1: I ready\n", "2026-11-22 05:04:09.9: I ready\n"),
        ("<f at 0x7f00aabbcc>\n", "<f at 0x7f99ddeeff>\n"),
        ("CPU times: user 2 ms\nWall time: 3 ms\n", "CPU times: user 9 ms\nWall time: 1 s\n"),
        ("  0%|  | 0/3\r 50%|# | 1/3 [00:01<00:01]\rdone\n", "done\n"),
        ("one\rtwo\n", "two\n"),
        ("a\r\nb\n", "a\nb\n"),
    ],
)
def test_what_differs_on_each_machine_is_not_compared(one, other):
    assert comparable(one) == comparable(other)
    assert collected(("stderr", one)).digest == collected(("stderr", other)).digest


@pytest.mark.parametrize(
    ("one", "other"), [("a", "b"), ("a\n", "a"), ("", "a"), ("loss 0.1234567", "loss 0.1234568"), ("0x12", "0x13")]
)
def test_all_other_text_is_compared(one, other):
    assert collected(("stdout", one)).digest != collected(("stdout", other)).digest


def test_the_same_text_on_another_stream_is_another_output():
    assert collected(("stdout", "a")).digest != collected(("stderr", "a")).digest


@given(st.lists(st.sampled_from(["a", "\n", "bc\n", "x" * 9000, "\n\n", "0x7f00aabbcc "]), max_size=30), st.randoms())
def test_an_output_does_not_depend_on_how_it_was_written(pieces, chance):
    text = "".join(pieces)
    cuts = sorted(chance.randrange(len(text) + 1) for _ in range(5))
    parts = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = collected(("stdout", text))
    assert collected(*(("stdout", part) for part in parts)) == whole
    assert len(whole.text) + whole.left_out == len(text)


def test_a_long_output_keeps_its_beginning_and_its_end():
    output = collected(*(("stdout", f"{number}\n") for number in range(100_000)))
    assert output.text.startswith("0\n1\n2\n")
    assert output.text.endswith("99998\n99999\n")
    assert len(output.text) == LIMIT
    assert output.left_out == sum(len(f"{number}\n") for number in range(100_000)) - LIMIT


def test_all_of_a_long_output_and_nothing_of_a_short_one_goes_to_the_file():
    long: list[str] = []
    short: list[str] = []
    collector = Collector(long.append)
    for number in range(100_000):
        collector.write("stdout", f"{number}\n")
    collector.collected()
    assert "".join(long) == "".join(f"{number}\n" for number in range(100_000))
    brief = Collector(short.append)
    brief.write("stdout", "x" * LIMIT)
    brief.collected()
    assert not short


def test_an_updated_display_replaces_its_data():
    collector = Collector()
    collector.show({"text/plain": "1"}, "a")
    collector.write("stdout", "between")
    collector.show({"text/plain": "2"}, "a", is_update=True)
    assert collector.collected().parts == (("data", {"text/plain": "2"}), ("stdout", "between"))


def test_large_displays_are_kept_as_text():
    collector = Collector()
    collector.show({"text/plain": "<Figure>", "image/png": b"x" * 2_000_000})
    assert collector.collected().parts == (("stdout", "<Figure>\n"),)


def test_many_displays_take_as_little_room_as_much_text():
    collector = Collector()
    for number in range(1_000):
        collector.show({"text/plain": str(number) * 10_000})
    output = collector.collected()
    assert len(json.dumps(output.to_json())) < 2_000_000
    assert output.text.endswith("999\n")


def test_a_display_that_is_updated_often_stays_whole():
    collector = Collector()
    collector.show({"text/html": "<b>0</b>"}, "a")
    for number in range(1_000):
        collector.show({"text/html": f"<b>{number}</b>" * 1_000}, "a", is_update=True)
    assert collector.collected().parts == (("data", {"text/html": "<b>999</b>" * 1_000}),)


def test_progress_bars_that_run_for_hours_are_not_compared():
    def bar(seconds: int) -> list[tuple[str, str]]:
        steps = [f"\r{number // 50}%|####| {number}/5000 [{seconds * number}s]" for number in range(5_000)]
        return [("stderr", step) for step in steps] + [("stderr", "\n"), ("stderr", "done\n")]

    assert collected(*bar(1)).digest == collected(*bar(2)).digest


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["1" * 60_000, "1" * 2_000_000, "1%" * 20_000, "0x" * 2_000_000])
def test_a_long_line_is_compared_in_a_moment(text):
    assert collected(("stdout", f"{text}\n")).digest != collected(("stdout", f"{text}2\n")).digest


def test_many_displays_are_cut_as_text_is():
    collector = Collector()
    for number in range(300):
        collector.show({"text/plain": f"{'-' * 1000} {number}", "text/html": "x" * 10_000})
    output = collector.collected()
    assert len(str(output.parts)) < 2_000_000
    assert output.left_out
    assert output.parts[-1][1].endswith("- 299\n")


def test_what_a_cell_clears_is_neither_shown_nor_compared():
    collector = Collector()
    for step in range(3):
        collector.clear(wait=True)
        collector.write("stdout", f"step {step}\n")
        collector.show({"text/plain": f"plot {step}"})
    assert collector.collected().parts == (("stdout", "step 2\n"), ("data", {"text/plain": "plot 2"}))
    brief = Collector()
    brief.write("stdout", "step 2\n")
    brief.show({"text/plain": "plot 2"})
    assert collector.collected().digest == brief.collected().digest
    collector.clear(wait=False)
    assert collector.collected().is_silent


@pytest.mark.parametrize(
    "data", [{1: 2, "a": object()}, float("nan"), {"a": {1, 2}}, "\ud800", b"\xff", {(1, 2): 3}, [[]] * 2]
)
def test_data_that_no_message_can_contain_becomes_what_one_can(data):
    collector = Collector()
    collector.show({"text/plain": "shown", "application/json": data})
    json.dumps(collector.collected().to_json(), ensure_ascii=False).encode()


def test_data_that_contains_itself_is_kept_as_text():
    collector = Collector()
    endless: list[object] = []
    endless.append(endless)
    collector.show({"text/plain": "endless", "application/json": endless})
    assert collector.collected().parts == (("data", {"text/plain": "endless"}),)


def test_data_is_shown_as_it_was_when_it_was_displayed():
    collector = Collector()
    shown = {"a": 1}
    collector.show({"application/json": shown})
    shown["a"] = 2
    assert collector.collected().parts == (("data", {"application/json": {"a": 1}}),)


def test_text_that_no_message_can_contain_is_replaced():
    assert collected(("stdout", "a\ud800b")).text == "a?b"


def test_a_long_line_of_digits_is_compared():
    assert collected(("stdout", "1" * 1_000_000 + "\n")).left_out == 1_000_001 - LIMIT


def test_widgets_are_not_compared():
    collector = Collector()
    collector.show({"application/vnd.jupyter.widget-view+json": {}, "text/plain": "IntSlider()"})
    assert collector.collected().is_silent


def test_an_output_survives_its_message():
    collector = Collector()
    collector.write("stdout", "a")
    collector.show({"text/plain": "1"})
    assert Collected.from_json(collector.collected().to_json()) == collector.collected()
