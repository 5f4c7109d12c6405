"""Posteriors of theta: updates, draws and scores."""
