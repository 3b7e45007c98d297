"""The REST API under ``/jupyter-tpu/v1``; `rest-api.yml` describes it.

Start with `table` (all routes) and `nodes` (the base class of all handlers). A handler parses the request with
`bodies`, calls one function and writes JSON; decisions about nodes and money are in other packages.
"""
