"""Calls to the agents of workers without a kernel in between; start reading at `agent_calls`.

It must not know kernels' messages or front ends.
"""
