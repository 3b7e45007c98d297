"""What outlives the emulator's process: nodes, queued resources, operations, the ledger, settings; in SQLite."""
