"""Tests compile what they play before the first call, so that none depends on when a background process is done."""

import os

os.environ.setdefault("GLBANDITS_COMPILE", "now")
