"""The REST API below ``/jupyter-tpu/v1``; `rest-api.yml` describes it.

Start with `table` (all routes) and `nodes` (what all handlers share). Each handler parses with `bodies`, calls one
function and answers with JSON; decisions are elsewhere.
"""
