from __future__ import annotations

import pytest

from jupyter_tpu.errors import BadInput
from jupyter_tpu.notebook.slices.targets import names_of, parse_cell


@pytest.mark.parametrize(
    ("cell", "workers", "code"),
    [
        ("x = 1", (0, 1, 2, 3), "x = 1"),
        ("", (0, 1, 2, 3), ""),
        ("%%worker 0\nx = 1\ny = 2", (0,), "x = 1\ny = 2"),
        ("\n  %%workers 0,2-3\nx", (0, 2, 3), "x"),
        ("%%workers 3, 1 ,1\nx", (1, 3), "x"),
        ("%%workers 0-3\nx", (0, 1, 2, 3), "x"),
        ("%%workersx 1\nx", (0, 1, 2, 3), "%%workersx 1\nx"),
        ("%%workers?", (0, 1, 2, 3), "%%workers?"),
        ("x\n%%worker 0\ny", (0, 1, 2, 3), "x\n%%worker 0\ny"),
        ("%%time\nx", (0, 1, 2, 3), "%%time\nx"),
        ("%tpu", (0,), "%tpu"),
        ("\n%tpu workers \n", (0,), "\n%tpu workers \n"),
        ("%tpu\nx", (0, 1, 2, 3), "%tpu\nx"),
        ("%tpu_init jax", (0, 1, 2, 3), "%tpu_init jax"),
    ],
)
def test_a_cell_runs_where_its_first_line_says(cell, workers, code):
    target = parse_cell(cell, 4)
    assert (target.workers, target.code) == (workers, code)
    assert target.is_partial == (len(workers) < 4 and "%%worker" in cell)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%worker 7\nx", "There is no worker 7."),
        ("%%workers 2-4\nx", "There is no worker 4."),
        ("%%workers a\nx", "Invalid choice of workers: “%%workers a”."),
        ("%%workers\nx", "Invalid choice of workers: “%%workers ”."),
        ("%%workers 3-1\nx", "Invalid choice of workers: “%%workers 3-1”."),
        ("%%workers -1\nx", "Invalid choice of workers: “%%workers -1”."),
        ("%%workers 1,\nx", "Invalid choice of workers: “%%workers 1,”."),
        ("%%worker 0,1\nx", "Invalid choice of workers: “%%worker 0,1”."),
        ("%%worker 0", "The cell has no code below %%worker."),
        ("%%workers 1\n \n", "The cell has no code below %%workers."),
        ("%%workers 0-99999999999\nx", "Invalid choice of workers: “%%workers 0-99999999999”."),
    ],
)
def test_a_line_that_names_no_worker_is_refused_with_the_numbers(cell, message):
    with pytest.raises(BadInput) as refused:
        parse_cell(cell, 4)
    assert refused.value.message == message
    assert "workers 0 to 3" in str(refused.value.hint) or "no code" in message


@pytest.mark.parametrize(
    ("workers", "names"),
    [
        ([2], "worker 2"),
        ([1, 2], "workers 1, 2"),
        ([3, 1, 2], "workers 1-3"),
        ([0, 2, 3, 4, 7], "workers 0, 2-4, 7"),
        (range(16), "workers 0-15"),
    ],
)
def test_workers_are_named_by_their_ranges(workers, names):
    assert names_of(workers) == names
