"""Compile the functions that a kernel calls for linking alone.

Numba makes an executable of every function: it optimises the function, translates it to machine code,
wraps it for callers in Python and in C, and saves it in the cache. Then it links the function into
the kernel that calls it, and does all that again there. With the patches of this module only the
kernel that Python calls becomes an executable. The functions that it calls are typed, lowered and
optimised, and translated once, within the kernel. This takes less than half the time
(docs/decisions/0032). They are optimised before they are linked, as Numba does: some loops come out a
tenth slower otherwise. In a kernel that keeps the interpreter's lock, which is for a single event, they are
not: the first answer counts more there.

Kernels of other packages are compiled as before.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from llvmlite.binding import Linkage
from numba.core import sigutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext
from numba.core.dispatcher import Dispatcher
from numba.core.environment import lookup_environment
from numba.core.runtime import rtsys
from numba.core.targetconfig import TargetConfig
from numba.core.types.misc import unliteral

from matchyard.kernels.compiler.notice import without_details

_ENVIRONMENT = "_ZN08NumbaEnv"  # how the names of Numba's environments begin
_PACKAGE = "matchyard."


class _Callee:
    """Stands for the executable of a function that has none. Numba finds a callee by it."""


class _Compilation:
    """What is being compiled. Only the thread that holds Numba's compiler lock reads or writes it."""

    depth = 0  # 1: the kernel itself, more: a function that it calls
    is_ours = False  # the kernel belongs to this package
    is_for_one = False  # it keeps the interpreter's lock
    replaced: list[Any] = []  # noqa: RUF012  # executables that Python may still call
    is_exact = False  # compile each signature that occurs, even if code for a wider one would do


def is_ours(function: Any) -> bool:
    """True if a dispatcher is of a kernel of this package."""
    return str(function.py_func.__module__).startswith(_PACKAGE)


def is_kernel() -> bool:
    """True while a kernel is compiled that Python calls, false while a function is that it calls."""
    return _Compilation.depth == 1


@contextmanager
def each_signature() -> Iterator[None]:
    """Compile a kernel for each signature that it is called with.

    Otherwise, a kernel that was compiled for a read-only array also serves calls with one that can be
    written, but not the other way round: what is compiled depends on the order of the calls.
    """
    _Compilation.is_exact = True
    try:
        yield
    finally:
        _Compilation.is_exact = False


def mark_as_loaded(compiled: Any) -> None:
    """Say that a kernel was loaded as machine code. It cannot be linked into another kernel."""
    compiled.library.is_loaded = True


def _is_loaded(compiled: Any) -> bool:
    return getattr(compiled.library, "is_loaded", False)


def _is_for_linking() -> bool:
    return _Compilation.is_ours and _Compilation.depth > 1


def _forget_unfit(function: Any, signature: Any) -> None:
    """Forget what was compiled for another use, so that Numba compiles the function again.

    Python cannot call a callee, and a kernel that was loaded cannot be linked.
    """
    arguments = tuple(sigutils.normalize_signature(signature)[0])
    compiled = function.overloads.get(arguments)
    if compiled is None:
        return
    is_callee = isinstance(compiled.entry_point, _Callee)
    if is_callee if _Compilation.depth == 0 else _is_loaded(compiled):
        _Compilation.replaced.append(compiled)
        del function.overloads[arguments]


def _link(library: Any) -> None:
    """Link the callees of a function into its library and optimise it. It gets no machine code."""
    if library._finalized or library is rtsys.library:
        return
    for callee in dict.fromkeys(library._linking_libraries):
        _link(callee)  # it may come from a kernel for one event
        library._reload_init.update(callee._reload_init)
        library._final_module.link_in(callee._get_module_for_linking(), preserve=True)
    library._optimize_final_module()
    library._finalized = True


def _link_whole(library: Any) -> None:
    """Link all that a kernel calls, directly or not, into its library, as it is."""
    seen: dict[Any, None] = {}
    waiting = list(library._linking_libraries)
    while waiting:
        callee = waiting.pop()
        if callee in seen or callee is rtsys.library:
            continue
        seen[callee] = None
        library._reload_init.update(callee._reload_init)
        if not callee._finalized:  # one that is has its callees in it
            waiting += callee._linking_libraries
    for callee in seen:
        library._final_module.link_in(_own_module(callee), preserve=True)
    library._linking_libraries = [rtsys.library]
    library.linked = list(seen)


def _own_module(callee: Any) -> Any:
    """The module of a callee, for linking: as Numba's `_get_module_for_linking`, also if not optimised."""
    if callee._finalized:
        return callee._get_module_for_linking()
    module = callee._final_module.clone()
    for function in module.functions:
        if not function.is_declaration and function.linkage == Linkage.external:
            function.linkage = "linkonce_odr"
    return module


def _hide_callees(library: Any, description: Any) -> None:
    """Make the functions within a kernel its own.

    The name of a function has a number that counts the functions of a process, and LLVM takes two
    functions of one name for the same. Two kernels from the files of two processes could thus share a
    function that is not the same in both: Numba's sort and argsort have names and types in common.
    """
    kept = (description.llvm_func_name, description.llvm_cpython_wrapper_name)
    for function in library._final_module.functions:
        if not function.is_declaration and function.name not in kept:
            function.linkage = "internal"


def _set_environments(library: Any) -> None:
    """Give each function within a kernel its environment: the constants of its error messages."""
    library.environments = []  # the machine code has the addresses: keep them alive with it
    for variable in library._final_module.global_variables:
        if variable.name.startswith(_ENVIRONMENT):
            environment = lookup_environment(variable.name)
            if environment is not None:
                library.codegen.set_env(variable.name, environment)
                library.environments.append(environment)


def compare_flags_quickly() -> None:
    """Let Numba compare the flags of two functions by what was set in them.

    Numba looks up each call of a function by its flags, and compares all of them by their names each
    time: a tenth of the time of a compilation.
    """
    kind: Any = TargetConfig
    compare = kind.__eq__

    def is_equal(flags: Any, others: Any) -> Any:
        if type(flags) is type(others) and flags._values == others._values:
            return True
        return compare(flags, others)

    kind.__eq__ = is_equal


def compile_callees_for_linking() -> None:
    """Apply the patches."""
    dispatcher: Any = Dispatcher
    library_kind: Any = JITCodeLibrary
    context_kind: Any = CPUContext
    compile_one, add_overload = dispatcher.compile, dispatcher.add_overload
    make_executable = context_kind.get_executable
    add_library, optimize = library_kind.add_linking_library, library_kind._optimize_final_module
    optimize_functions = library_kind._optimize_functions

    @functools.wraps(compile_one)
    def compile_at_depth(function: Any, signature: Any) -> Any:
        with global_compiler_lock:
            if _Compilation.depth == 0:
                _Compilation.is_ours = is_ours(function)
                _Compilation.is_for_one = not function.targetoptions.get("nogil", False)
            elif _Compilation.is_ours and _Compilation.is_for_one:
                signature = tuple(map(unliteral, signature))  # one version for all constants
            _forget_unfit(function, signature)
            collects = _Compilation.is_ours and gc.isenabled()
            if collects:  # a compilation makes millions of objects and hardly a circle of them
                gc.disable()
            _Compilation.depth += 1
            try:
                with without_details() if _Compilation.is_ours else nullcontext():
                    return compile_one(function, signature)
            finally:
                _Compilation.depth -= 1
                if _Compilation.depth == 0:  # what follows may be of another package
                    _Compilation.is_ours = _Compilation.is_for_one = False
                if collects:
                    gc.enable()

    def unless(is_needless: Callable[[], bool], make_wrapper: Any) -> Any:
        @functools.wraps(make_wrapper)
        def make(*given: Any, **named: Any) -> None:
            if not is_needless():
                make_wrapper(*given, **named)

        return make

    @functools.wraps(make_executable)
    def executable_of_kernel(context: Any, library: Any, description: Any, environment: Any) -> Any:
        if _is_for_linking():
            if not _Compilation.is_for_one:
                _link(library)
            return _Callee()
        if _Compilation.is_ours:
            library.kernel = description
            if _Compilation.is_for_one:
                _link_whole(library)
        executable = make_executable(context, library, description, environment)
        _set_environments(library)
        return executable

    @functools.wraps(optimize)
    def optimize_own(library: Any) -> None:
        optimize(library)  # first: LLVM would inline other calls otherwise
        if getattr(library, "kernel", None) is not None:
            _hide_callees(library, library.kernel)

    @functools.wraps(optimize_functions)
    def optimize_defined(library: Any, module: Any) -> None:
        """As Numba does it, but not for the functions that a module only declares: most of them."""
        if not _Compilation.is_ours:
            optimize_functions(library, module)
            return
        module.data_layout = library._codegen._data_layout
        for function in module.functions:
            if not function.is_declaration:
                passes, builder = library._codegen._function_pass_manager()
                passes.run(function, builder)

    @functools.wraps(add_library)
    def add_callee(library: Any, callee: Any) -> None:
        if _Compilation.is_ours and _Compilation.is_for_one:
            library._linking_libraries.append(callee)
            return
        if _Compilation.is_ours:
            _link(callee)  # Numba would make machine code of it
        add_library(library, callee)

    @functools.wraps(add_overload)
    def add_without_executable(function: Any, compiled: Any) -> None:
        is_hidden = _Compilation.is_exact and _Compilation.is_ours
        if is_hidden or isinstance(compiled.entry_point, _Callee):
            function.overloads[tuple(compiled.signature.args)] = compiled
        else:
            add_overload(function, compiled)

    dispatcher.compile, dispatcher.add_overload = compile_at_depth, add_without_executable
    context_kind.get_executable = executable_of_kernel
    library_kind.add_linking_library = add_callee
    library_kind._optimize_final_module = optimize_own
    library_kind._optimize_functions = optimize_defined
    for_python, for_c = context_kind.create_cpython_wrapper, context_kind.create_cfunc_wrapper
    context_kind.create_cpython_wrapper = unless(_is_for_linking, for_python)
    context_kind.create_cfunc_wrapper = unless(lambda: _Compilation.is_ours, for_c)
