"""Stream text against JupyterLab's own algorithm (`processText` of its output area model), followed word for word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.outputs.text import StreamText

pieces = st.lists(st.text(alphabet="ab\n\r\b", max_size=12), max_size=12)
words = st.lists(st.text(alphabet="ab\n", max_size=30), max_size=12)


def lab_text(chunks: list[str]) -> tuple[str, int]:
    """The text and the cursor's place in it."""
    text, cursor = "", 0
    for chunk in chunks:
        for character in chunk:
            if character == "\b":
                if cursor > 0 and text[cursor - 1] != "\n":
                    text = text[: cursor - 1] + text[cursor + 1 :]
                    cursor -= 1
            elif character == "\r":
                while cursor > 0 and text[cursor - 1] != "\n":
                    cursor -= 1
            elif character == "\n":
                text += "\n"
                cursor = len(text)
            else:
                text = text[:cursor] + character + text[cursor + 1 :]
                cursor += 1
    return text, cursor


def written(chunks: list[str], head: int = 10**6, tail: int = 10**6) -> StreamText:
    text = StreamText(head, tail)
    for chunk in chunks:
        text.write(chunk)
    return text


@given(pieces)
def test_text_and_cursor_are_those_of_jupyterlab(chunks: list[str]) -> None:
    shown = written(chunks).excerpt()

    text, cursor = lab_text(chunks)
    from_end = 0 if shown.cursor is None else len(shown.tail[shown.tail.rfind("\n") + 1 :]) - shown.cursor
    assert (shown.tail, len(text) - from_end) == (text, cursor)


@given(pieces, st.integers(0, 20), st.integers(1, 20))
def test_what_is_kept_is_the_beginning_and_the_end(chunks: list[str], head: int, tail: int) -> None:
    shown = written(chunks, head, tail).excerpt()

    text, _ = lab_text(chunks)
    assert text.startswith(shown.head)
    assert text.endswith(shown.tail)
    assert len(shown.head) + len(shown.tail) + shown.omitted_bytes == len(text)
    assert bool(shown.omitted_bytes) == (len(text) > head + tail)
    assert len(shown.head) <= head or not shown.omitted_bytes


@given(words, st.integers(2, 20), st.integers(2, 20))
def test_whole_lines_are_shown_where_there_are_any(chunks: list[str], head: int, tail: int) -> None:
    shown = written(chunks, head, tail).excerpt()

    text = "".join(chunks)
    if shown.omitted_bytes and "\n" in text[:head]:
        assert shown.head.endswith("\n")
    if shown.omitted_bytes and "\n" in text[-tail:-1]:
        assert text[: -len(shown.tail)].endswith("\n")


def test_what_is_missing_in_the_middle_is_counted_and_the_text_goes_on_behind_it() -> None:
    text = written(["first\n"])
    text.omit(1000)
    text.write("last\n")

    shown = text.excerpt()

    assert (shown.head, shown.tail, shown.omitted_bytes) == ("first\n", "last\n", 1000)


def test_a_line_that_is_overwritten_a_million_times_stays_one_line() -> None:
    text = written(["x" * 1000, *(f"\r{number}" for number in range(100_000))])

    assert text.excerpt().tail == "99999" + "x" * 995
