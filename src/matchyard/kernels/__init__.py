"""Numba building blocks of the engines: hashing, bit sets, CSR, and the subset index. Read `subset`
first."""

from matchyard.kernels import compiler as compiler

__all__ = [
    "bits", "bitset", "compiler", "csr", "equal_rows", "geo", "growing", "hashing", "inspection", "intrinsics",
    "json_lines", "key_table", "network", "prepared", "random", "routing", "search", "sorting", "strings", "subset", "subset_build",
    "tombstones", "unique_keys",
]  # fmt: skip
