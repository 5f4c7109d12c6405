"""The version of the package. Model files and results record it."""

__version__ = "0.1.0"
