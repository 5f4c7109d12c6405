"""Logs of decisions: in memory, and read from tables and files."""
