"""Direct calls to workers' agents, without a kernel. Start reading at `agent_calls`.

This package must not depend on kernel messages or front ends.
"""
