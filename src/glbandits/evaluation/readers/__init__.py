"""Readers of logs: tables and files of several formats."""
