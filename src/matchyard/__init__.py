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
    from matchyard.detections import sigma
    from matchyard.engine import ENGINES
    from matchyard.engines.predicates.language import field
    from matchyard.errors import (
        ConflictError,
        DeviceError,
        MatchyardError,
        ParseError,
        StagedWarning,
        StorageError,
        UsageError,
    )
    from matchyard.forwarding import interface_key
    from matchyard.index.contents import Estimate
    from matchyard.index.verbs import Index
    from matchyard.kinds import PredicateIndex, TagIndex, TwigIndex
    from matchyard.matches import Matches, Work
    from matchyard.network import Network
    from matchyard.networks import topology
    from matchyard.opening import algorithms, create, open, workload
    from matchyard.warming import warm

__version__ = "0.1.0"

_HOMES = {
    "ENGINES": "engine",
    "ConflictError": "errors",
    "DeviceError": "errors",
    "Estimate": "index.contents",
    "Index": "index.verbs",
    "Matches": "matches",
    "MatchyardError": "errors",
    "Network": "network",
    "ParseError": "errors",
    "PredicateIndex": "kinds",
    "StagedWarning": "errors",
    "StorageError": "errors",
    "TagIndex": "kinds",
    "TwigIndex": "kinds",
    "UsageError": "errors",
    "Work": "matches",
    "algorithms": "opening",
    "create": "opening",
    "field": "engines.predicates.language",
    "interface_key": "forwarding",
    "open": "opening",
    "sigma": "detections",
    "topology": "networks",
    "warm": "warming",
    "workload": "opening",
}

__all__ = [
    "ENGINES", "ConflictError", "DeviceError", "Estimate", "Index", "Matches", "MatchyardError", "Network",
    "ParseError", "PredicateIndex", "StagedWarning", "StorageError", "TagIndex", "TwigIndex", "UsageError", "Work",
    "__version__", "algorithms", "create", "field", "interface_key", "open", "sigma", "topology", "warm", "workload",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'matchyard' has no attribute {name!r}")
    with _loading:
        value = getattr(_import_module(f"matchyard.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


# Programs load everything at import, so that their first match need not import Numba. The command
# line loads a module when it needs it, so that its help appears at once.
if _Path(_sys.argv[0] if _sys.argv else "").name not in ("matchyard", "-m"):
    for _name in _HOMES:
        if _name != "Network":  # it needs SciPy, which not everybody has
            __getattr__(_name)
