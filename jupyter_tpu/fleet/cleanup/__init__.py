"""See and delete everything in the project that costs money or uses quota; stop all spending at once."""
