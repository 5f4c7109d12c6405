"""Model files of each version of the format."""
