"""The dashboard: a page that says whether a loop is learning, and the statistics behind it."""
