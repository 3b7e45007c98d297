"""A kernel's view of its own machine: the agent, the worker's environment, the processes that use the chips.

Start with `agent_call`, through which magics and widgets get everything that only the agent knows.
"""
