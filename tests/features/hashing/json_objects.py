"""Strategies that generate JSON objects with features."""

from hypothesis import strategies as st

NUMBERS = st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6) | st.booleans()
NAMES = st.text(max_size=5)
FLAT = st.dictionaries(NAMES, NUMBERS | st.text(max_size=5) | st.none() | st.lists(NUMBERS, max_size=3), max_size=4)
NESTED = st.dictionaries(NAMES, FLAT | NUMBERS | st.lists(FLAT, min_size=1, max_size=2), max_size=3)
OBJECTS = NESTED | st.dictionaries(NAMES, NESTED, max_size=2)
