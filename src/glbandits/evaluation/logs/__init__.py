"""Logs of decisions in memory: rows, arms, parts of logs, and overlap."""
