"""What a kernel's messages amount to: the record of a request in, the outputs of its cell out.

Pure: messages come in as values, in the order of the record; nothing waits, looks at the clock or knows where they
were read. The rules are those of JupyterLab's output area, as far as nbclient does not contradict the protocol.

    parsing     one message of the record, read with suspicion
    text        stream text with carriage returns and backspaces, in bounded space
    items       the single outputs: streams, displays, errors
    request     all that is known of one execute_request
    reducer     many requests and the displays they share
    rendering   outputs as a notebook holds them, within limits
    compaction  the fewest messages that bring a fresh front end to the same state
"""

from jupyter_tpu.outputs.compaction import compact
from jupyter_tpu.outputs.reducer import Arrived, Reducer
from jupyter_tpu.outputs.rendering import NO_LIMITS, Limits, Rendered, render
from jupyter_tpu.outputs.request import Request

__all__ = ["NO_LIMITS", "Arrived", "Limits", "Reducer", "Rendered", "Request", "compact", "render"]
