"""List and delete everything in the project that costs money or uses quota; stop all spending.

Start with `billable` (the list and the deletion of marked items) and `stop_all`. Each stop and deletion is performed by
`jupyter_tpu.fleet.termination`.
"""
