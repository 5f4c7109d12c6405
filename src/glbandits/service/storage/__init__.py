"""Stores of events, documents and models, in SQLite and in PostgreSQL."""
