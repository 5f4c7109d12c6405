"""The decision service: rank, reward, and a log that loses nothing."""
