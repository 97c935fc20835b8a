"""How Numba compiles and caches the kernels of this package. Kernels of other packages are left alone.

The package of the kernels imports this one, so that all applies before the first compilation.
"""

from __future__ import annotations

from typing import Any

import numpy.ma  # noqa: F401  # Numba takes it with the first array: no place for an import to be interrupted
from numba.core.dispatcher import Dispatcher

from matchyard.kernels.compiler.code_cache import CodeCache
from matchyard.kernels.compiler.linking import (
    compare_flags_quickly,
    compile_callees_for_linking,
    each_signature,
    is_ours,
)
from matchyard.kernels.compiler.notice import n_compiled
from matchyard.kernels.compiler.patches import (
    box_without_python,
    compile_without_interrupts,
    wait_for_compilers,
)


def _cache_machine_code() -> None:
    """Give the kernels of this package the cache of this package."""
    kind: Any = Dispatcher
    enable = kind.enable_caching

    def enable_caching(function: Any) -> None:
        if is_ours(function):
            function._cache = CodeCache(function.py_func)
        else:
            enable(function)

    kind.enable_caching = enable_caching


wait_for_compilers()
box_without_python()
compile_callees_for_linking()
compare_flags_quickly()
compile_without_interrupts()
_cache_machine_code()

__all__ = ["each_signature", "n_compiled"]
