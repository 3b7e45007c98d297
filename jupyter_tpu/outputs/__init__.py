"""Reduce a kernel's recorded messages to the outputs of its cells.

Start with `reducer`. Pure: messages are passed as values, in the order of the record; nothing here waits, reads a clock
or depends on the source of the messages. The rules follow JupyterLab's output area and the Jupyter protocol.

    parsing          parse and validate one message of the record
    text             stream text with carriage returns and backspaces, in bounded space
    items            the individual outputs: streams, displays, errors
    execute_request  the state and outputs of one request
    reducer          many requests and the displays they share
    rendering        outputs in notebook format, within limits
    compaction       the fewest messages that bring a fresh front end to the same state
"""

from jupyter_tpu.outputs.compaction import compact
from jupyter_tpu.outputs.execute_request import Request
from jupyter_tpu.outputs.reducer import Arrived, Reducer
from jupyter_tpu.outputs.rendering import NO_LIMITS, Limits, Rendered, render

__all__ = ["NO_LIMITS", "Arrived", "Limits", "Reducer", "Rendered", "Request", "compact", "render"]
