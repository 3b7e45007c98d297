"""Queued resources: the API methods (`methods`) and the schedule of their state changes (`agenda`)."""
