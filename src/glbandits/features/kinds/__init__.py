"""Kinds of columns: how one column of a table becomes features."""
