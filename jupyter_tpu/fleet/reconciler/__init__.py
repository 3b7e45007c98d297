"""Carry out users' requests about nodes, and reconcile them with the state of the cloud.

Start with `fleet` (the loop) and `intent_runner` (one intent from start to end). Decisions are in
`jupyter_tpu.lifecycle`; `executor` carries them out. The package does not depend on money or auto-stop: these are
`Controller`s that the loop calls.
"""
