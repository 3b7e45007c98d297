"""Stop or delete individual nodes, each after its checkpoint hooks have had time to run.

Start with `termination_executor`. Used by auto-stop, budgets and clean-up, which make the decisions. Only
`stop_refusals` decides whether to delete a node after a rejected stop.
"""
