"""Prices, billing account and the BigQuery export. Start with `catalogue`."""
