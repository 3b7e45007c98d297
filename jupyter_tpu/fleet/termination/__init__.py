"""Stop or delete nodes one by one, each after its checkpoint hooks had time to run.

Start with `termination_executor`. Used by auto-stop, budgets and clean-up; decides nothing itself, except in
`stop_refusals`: whether a refused stop becomes a deletion.
"""
