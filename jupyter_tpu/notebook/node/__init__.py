"""Data about the kernel's own machine: the agent, the worker's environment, the processes that use the chips.

Start with `agent_call`, which magics and widgets use to get data from the agent.
"""
