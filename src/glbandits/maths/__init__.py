"""Numerical functions: links, linear algebra, random numbers, fits and posteriors.

No input, output or global state. Most functions are `jittable`: Numba compiles them as a part of an entry point, and
plain Python gives the same bits.
"""
