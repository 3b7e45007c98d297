"""Keep real sessions with Google's services as cases, and play them against the emulator."""
