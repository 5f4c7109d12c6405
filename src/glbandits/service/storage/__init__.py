"""Stores of events, documents, models and catalogues, in SQLite and in PostgreSQL."""
