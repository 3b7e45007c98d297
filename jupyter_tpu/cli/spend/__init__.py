"""Commands about money: cost, budget, grant, quota, audit, clean-up."""
