"""`topology`, which loads `matchyard.routing` and so SciPy only when it is called."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matchyard.routing import Topology


def topology(path: str | os.PathLike[str], component: str = "largest") -> Topology:
    """Read a network from a file: AS relations of CAIDA, a map of Rocketfuel, or a list of links.

    Only the largest part whose nodes reach each other is kept, or with `component="all"`, all of it.
    See `matchyard.routing.topology`.
    """
    from matchyard.routing import topology as read

    return read(path, component)
