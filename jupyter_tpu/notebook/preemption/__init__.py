"""``%%tpu_on_preempt``: run the user's checkpoint code once when the node is about to stop.

`magic` stores the code; `hook` waits for the agent's notice and runs it. The agent's side is `agent.preemption`.
"""
