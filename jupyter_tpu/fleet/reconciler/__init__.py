"""Carry out users' requests about nodes, and reconcile them with what the cloud has.

Start with `fleet` (the loop) and `intent_runner` (one intent from start to end). Decisions are in
`jupyter_tpu.lifecycle`; `executor` performs them. It knows nothing of money or auto-stop: they are `Controller`s that
the loop calls.
"""
