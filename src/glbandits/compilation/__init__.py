"""When and how Numba compiles: entry points, the interface to Numba, the digest of code, a background process."""
