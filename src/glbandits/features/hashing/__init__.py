"""Hashed features of JSON objects."""
