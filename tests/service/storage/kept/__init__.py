"""Stores that earlier versions have written, which must open for ever."""
