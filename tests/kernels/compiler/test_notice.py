"""What Numba logs while it compiles: nothing for kernels of this package, unless the user wants it."""

from __future__ import annotations

import json
import subprocess
import sys

CODE = """
import io, json, logging
said = io.StringIO()
logging.basicConfig(level=logging.DEBUG, stream=said)
from numba import njit
import matchyard.kernels.compiler

def logged(module):
    def add_one(number):
        return number + 1
    add_one.__module__ = module
    before = said.tell()
    assert njit(nogil=True)(add_one)(1) == 2
    return said.tell() - before

ours, another = logged("matchyard.kernels.some"), logged("another.package")
level = logging.getLogger("numba").level
logging.getLogger("numba").setLevel(logging.DEBUG)
wanted = logged("matchyard.kernels.some")
print(json.dumps([ours, another, level, wanted, logging.getLogger("numba").level]))
"""


def test_the_root_logger_gets_no_details_of_our_kernels() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    ours, another, level, wanted, chosen = json.loads(done.stdout)
    assert ours == 0
    assert another > 1_000
    assert level == 0  # as it was
    assert wanted > 1_000
    assert chosen == 10
