"""Matchyard: match every event of a stream against millions of standing subscriptions.

>>> import matchyard as my
>>> index = my.TagIndex().add("jazz live", key=7).consolidate()
>>> index.match([{"jazz", "live", "oslo"}])[0]
[7]
"""

import sys as _sys
from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from matchyard.threads.forks import loading as _loading

if _TYPE_CHECKING:
    from matchyard.engine import ENGINES
    from matchyard.engines.predicates.language import field
    from matchyard.errors import DeviceError, MatchyardError, ParseError, StorageError, UsageError
    from matchyard.index.kinds import (
        PredicateIndex,
        TagIndex,
        TwigIndex,
        algorithms,
        create,
        interface_key,
        open,
        workload,
    )
    from matchyard.index.verbs import Estimate, Index
    from matchyard.matches import Matches, Work
    from matchyard.network import Network
    from matchyard.routing import topology

__version__ = "0.1.0"

_HOMES = {
    "ENGINES": "engine",
    "DeviceError": "errors",
    "Estimate": "index.verbs",
    "Index": "index.verbs",
    "Matches": "matches",
    "MatchyardError": "errors",
    "Network": "network",
    "ParseError": "errors",
    "PredicateIndex": "index.kinds",
    "StorageError": "errors",
    "TagIndex": "index.kinds",
    "TwigIndex": "index.kinds",
    "UsageError": "errors",
    "Work": "matches",
    "algorithms": "index.kinds",
    "create": "index.kinds",
    "field": "engines.predicates.language",
    "interface_key": "index.kinds",
    "open": "index.kinds",
    "topology": "routing",
    "workload": "index.kinds",
}

__all__ = [
    "ENGINES",
    "DeviceError",
    "Estimate",
    "Index",
    "Matches",
    "MatchyardError",
    "Network",
    "ParseError",
    "PredicateIndex",
    "StorageError",
    "TagIndex",
    "TwigIndex",
    "UsageError",
    "Work",
    "__version__",
    "algorithms",
    "create",
    "field",
    "interface_key",
    "open",
    "topology",
    "workload",
]


def __getattr__(name: str) -> _Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'matchyard' has no attribute {name!r}")
    with _loading:
        value = getattr(_import_module(f"matchyard.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


# A program that imports the package wants it ready, so that its first match is not also its first
# import of Numba. The command shows its help without that, and loads what it needs later.
if _Path(_sys.argv[0] if _sys.argv else "").name not in ("matchyard", "-m"):
    for _name in _HOMES:
        if _name not in ("Network", "topology"):  # they need SciPy, which not everybody has
            __getattr__(_name)
