"""Posteriors and fits of theta on sparse rows. Each stores a few numbers for each learned feature in a hash table."""
