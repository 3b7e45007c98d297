"""Decide on the next actions for a node: events are the input, actions are the output.

Start with `intent_machine` (the state machine of intents), and then read `create` and `to_stopped` for the contents of
its tables. `search` and `auto_recovery` build on it: they decide on capacity searches and on re-creation after a
pre-emption. This package is pure: it uses no asyncio, clock, cloud or disk. `jupyter_tpu.fleet` carries out
these decisions, and `jupyter_tpu.journal` stores them.
"""
