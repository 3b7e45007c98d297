"""Record real sessions with Google's services as cases, and replay them against the emulator."""
