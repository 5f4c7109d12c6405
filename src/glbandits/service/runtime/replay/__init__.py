"""Decisions and models computed again from the log."""
