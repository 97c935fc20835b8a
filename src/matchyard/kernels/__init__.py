"""Numba building blocks of the engines: hashing, bit sets, CSR, and the subset index. Read `subset`
first."""

from matchyard.kernels import compiler as compiler

__all__ = [
    "bitset",
    "csr",
    "equal_rows",
    "geo",
    "hashing",
    "inspection",
    "intrinsics",
    "key_table",
    "network",
    "random",
    "routing",
    "strings",
    "subset",
    "subset_build",
]
