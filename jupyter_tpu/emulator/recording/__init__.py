"""Records real sessions with Google's services as cases, and plays them against the emulator."""
