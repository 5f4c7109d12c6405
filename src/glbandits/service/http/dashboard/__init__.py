"""The dashboard: a page that shows whether a loop is learning, and its statistics."""
