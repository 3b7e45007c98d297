"""Stop or delete individual nodes, after giving their checkpoint hooks time to run.

Start with `termination_executor`. Auto-stop, budgets and clean-up decide what to stop or delete, and then call this
package. Only `stop_refusals` decides whether to delete a node after a rejected stop.
"""
