"""Stop or delete one node after the other, after its checkpoint hooks have had their time.

Start with `termination_executor`. Used by auto-stop, budgets and clean-up; decides nothing itself, except in
`stop_refusals`: whether a refused stop becomes a deletion.
"""
