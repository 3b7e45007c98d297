"""Stop or delete individual nodes, each after its checkpoint hooks have had time to run.

Start with `termination_executor`. Auto-stop, budgets and clean-up decide what to stop or delete, and use this package
to do so. Only `stop_refusals` decides whether to delete a node after a rejected stop.
"""
