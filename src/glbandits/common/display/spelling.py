"""Hints that name both the option of the command line and the argument in Python, in the spelling of one of them.

>>> hint = "name the time (--time when, in Python Columns(time='when')), or set --reward-range, in Python reward_range"
>>> on_command_line(hint)
'name the time (--time when), or set --reward-range'
>>> in_python(hint)
"name the time (Columns(time='when')), or set reward_range"
"""

import re

_BOTH = re.compile(r"(--[\w-]+(?: [\w{}.]+)?), in Python (\w+(?:\([^()]*\))?)")


def on_command_line(text: str) -> str:
    """Return the text with options only."""
    return _BOTH.sub(r"\1", text)


def in_python(text: str) -> str:
    """Return the text with arguments in Python only."""
    return _BOTH.sub(r"\2", text)
