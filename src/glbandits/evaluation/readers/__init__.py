"""Readers of logs: tables, files of several formats, and slates."""
