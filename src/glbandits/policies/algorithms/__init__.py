"""The algorithms, one module for each."""
