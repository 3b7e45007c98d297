"""What a metadata server's answers mean."""

from __future__ import annotations

import pytest

from jupyter_tpu.agent.notice_watch import read_answer


def test_an_answer_is_a_value_and_the_mark_it_is_known_by() -> None:
    answer = b"HTTP/1.0 200 OK\r\nETag: 1f\r\nContent-Type: application/text\r\n\r\nTRUE\n"
    assert read_answer(answer) == ("TRUE", "1f")


@pytest.mark.parametrize(
    "answer", [b"", b"\xff\x00", b"HTTP/1.0 404 Not Found\r\n\r\nTRUE", b"200\r\n\r\nTRUE"], ids=str
)
def test_any_other_answer_tells_nothing(answer: bytes) -> None:
    with pytest.raises(ValueError, match="it answers"):
        read_answer(answer)
