"""SSH into workers: an embedded server on asyncssh, or the system's OpenSSH."""
