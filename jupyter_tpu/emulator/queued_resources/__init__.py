"""Queued resources: the API methods (`methods`) and the agenda that moves each through its states (`agenda`)."""
