"""Numba building blocks shared by the engines: hashing, bit sets, CSR, and the subset index."""

from matchyard.kernels import compiler as compiler

__all__ = [
    "bits",
    "bitset",
    "csr",
    "equal_rows",
    "geo",
    "growing",
    "hashing",
    "inspection",
    "intrinsics",
    "network",
    "random",
    "routing",
    "search",
    "strings",
    "subset",
    "subset_build",
]
