"""Numba building blocks shared by the engines: hashing, bit sets, CSR, and the subset index."""

from matchyard.kernels import compiler as compiler
