"""The version of the package: files and results carry it."""

__version__ = "0.1.0"
