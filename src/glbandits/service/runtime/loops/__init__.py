"""A loop in a server process: decisions, learning, documents, statistics."""
