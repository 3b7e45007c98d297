"""Prices, billing account, budgets and the BigQuery export. Start with `catalogue`."""
