"""Decide on the next actions for a node: events in, actions out.

Start with `intent_machine` (the state machine of intents), and then read `create` and `to_stopped` for the contents of
its tables. `search` and `auto_recovery` build on it: they decide on capacity searches and on re-creation after a
pre-emption. Pure: no asyncio, no clock, no cloud, no disk. `jupyter_tpu.fleet` performs these decisions, and
`jupyter_tpu.journal` stores them.
"""
