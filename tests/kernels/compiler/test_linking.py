"""Functions that a kernel calls: linked into it, and callable from Python all the same."""

from __future__ import annotations

import pytest
from llvmlite.binding import Linkage
from numba import cfunc, njit
from numba.core.caching import FunctionCache

from tests.kernels.compiler.probe import Probe, n_hits


def test_a_function_is_called_by_python_before_and_after_by_a_kernel(probe: Probe) -> None:
    for _ in range(2):  # compiled, then loaded
        module = probe.load()
        assert [module.twice(5), module.thrice(5), module.twice(5), module.step(5)] == [7, 8, 7, 6]
        module = probe.load()
        assert [module.thrice(5), module.twice(5), module.thrice(5), module.step(5)] == [8, 7, 8, 6]
    assert probe.files() == ["step", "thrice", "twice"]


def test_a_loaded_kernel_can_be_linked_into_a_new_one(probe: Probe) -> None:
    assert probe.load().twice(5) == 7
    module = probe.load()
    assert (module.twice(5), n_hits(module.twice)) == (7, 1)
    assert (module.thrice(5), n_hits(module.thrice)) == (8, 0)
    assert module.twice(5) == 7


def test_a_kernel_shares_no_function_with_others(probe: Probe) -> None:
    """Two kernels of two processes may have functions of one name that differ: sort and argsort."""
    kernel = probe.load().thrice
    assert kernel(5) == 8
    (compiled,) = kernel.overloads.values()
    functions = [one for one in compiled.library._final_module.functions if not one.is_declaration]
    shared = {one.name for one in functions if one.linkage != Linkage.internal}
    description = compiled.fndesc
    assert shared == {description.llvm_func_name, description.llvm_cpython_wrapper_name}


ONE_EVENT = """
@njit(cache=True)
def one(number):
    return step(twice(number)) + step(0)
"""


def test_callees_are_optimised_for_batches_and_linked_as_they_are_for_one_event(
    probe: Probe,
) -> None:
    probe.kernels += ONE_EVENT
    module = probe.load()
    assert module.one(5) == 9
    (compiled,) = module.twice.overloads.values()
    assert not compiled.library._finalized
    assert len(module.step.overloads) == 1  # one version for all constants
    assert (module.thrice(5), module.twice(5), module.one(6)) == (8, 7, 10)  # in the other order
    module = probe.load()
    assert (module.thrice(5), n_hits(module.thrice)) == (8, 1)
    with pytest.raises(ValueError, match="a negative number"):
        module.one(-7)
    assert n_hits(module.one) == 1


def test_a_kernel_for_batches_takes_the_callees_of_one_for_single_events(probe: Probe) -> None:
    probe.kernels += ONE_EVENT
    module = probe.load()
    assert (module.one(5), module.thrice(5)) == (9, 8)
    for function in (module.step, module.twice):
        assert all(compiled.library._finalized for compiled in function.overloads.values())
    assert (module.one(5), module.twice(5), module.step(5)) == (9, 7, 6)


def test_errors_of_callees_keep_their_text(probe: Probe) -> None:
    for hits in (0, 1):
        kernel = probe.load().thrice
        for _ in range(2):
            with pytest.raises(ValueError, match="a negative number") as raised:
                kernel(-7)
            assert raised.value.args == ("a negative number", -7)
        assert n_hits(kernel) == hits


def test_kernels_of_other_packages_are_compiled_as_numba_does(probe: Probe) -> None:
    step = probe.load().step

    @njit(cache=True)
    def inner(number):  # type: ignore[no-untyped-def]
        return step(number) + 1

    @njit
    def outer(number):  # type: ignore[no-untyped-def]
        return inner(number) + 1

    assert isinstance(inner._cache, FunctionCache)
    assert outer(5) == 8
    assert inner.overloads[next(iter(inner.overloads))].entry_point(5) == 7
    assert (inner(5), step(5)) == (7, 6)
    with pytest.raises(ValueError, match="a negative number"):
        outer(-7)


def test_functions_for_c_of_other_packages_are_compiled_as_numba_does(probe: Probe) -> None:
    assert probe.load().thrice(5) == 8
    assert cfunc("int64(int64)")(lambda number: number + 1).ctypes(3) == 4
