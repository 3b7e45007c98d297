"""Decide what to do next about a node: events in, actions out.

Start with `intent_machine` (the state machine of intents), then `create` and `to_stopped` for the contents of its
tables. `search` and `auto_recovery` decide on top of it: searches for capacity, and re-creation after a pre-emption.
Pure: no asyncio, no clock, no cloud, no disk. `jupyter_tpu.fleet` performs what is decided here, `jupyter_tpu.journal`
stores it.
"""
