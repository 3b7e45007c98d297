"""Record the exchanges of real sessions with Google's services, and replay them against the emulator."""
