"""Features that are not numbers yet: JSON objects, turned into vectors of a chosen width."""
