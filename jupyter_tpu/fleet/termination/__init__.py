"""Stop or delete one node after the other, after its checkpoint hooks have had their time.

Used by auto-stop, budgets and clean-up; decides nothing itself.
"""
