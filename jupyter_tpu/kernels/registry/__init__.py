"""What this computer keeps of each kernel that a Jupyter server started, so that the next server finds it."""
