"""Statistics of rows that arrive one block at a time."""
