"""Numba building blocks shared by the engines: hashing, bit sets, CSR, and the subset index."""
