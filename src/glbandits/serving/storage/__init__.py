"""Stores of events, documents and models."""
