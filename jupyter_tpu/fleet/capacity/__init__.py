"""Get nodes when capacity is scarce: search zones and types, queue nodes, recreate nodes after pre-emption.

Start with `search_controller` and `recreate`. The decisions are in `jupyter_tpu.lifecycle`; nodes are created and
deleted by the `Fleet` of `jupyter_tpu.fleet.reconciler`.
"""
