"""Matchyard: match every event of a stream against millions of standing subscriptions.

>>> import matchyard as my
>>> index = my.TagIndex().add("jazz live", key=7).consolidate()
>>> index.match([{"jazz", "live", "oslo"}])[0]
[7]
"""

from matchyard.engine import ENGINES
from matchyard.errors import DeviceError, MatchyardError, ParseError, StorageError, UsageError
from matchyard.index import Estimate, Index
from matchyard.indexes import TagIndex, interface_key, open
from matchyard.matches import Matches, Work

__version__ = "0.1.0"

__all__ = [
    "ENGINES",
    "DeviceError",
    "Estimate",
    "Index",
    "Matches",
    "MatchyardError",
    "ParseError",
    "StorageError",
    "TagIndex",
    "UsageError",
    "Work",
    "__version__",
    "interface_key",
    "open",
]
