"""Tests compile what they play for long, and nothing in the background: most of them are over before."""

import os

os.environ.setdefault("GLBANDITS_COMPILE", "on-demand")
