"""Persistence of the emulator in SQLite: nodes, queued resources, operations, the ledger and settings."""
