"""Write the state folder of a router: `python -m tests.golden.make_router_state FOLDER`.

`router-state-1` was written before logs were journals, `router-state-2` by the first release after it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from matchyard.network.peers import Input, InputKind
from matchyard.network.station import Station
from matchyard.network.station_log import StationLog
from tests.network.test_station import ADA, SETTINGS, line, news, wish


def make(folder: Path) -> None:
    """A router with a neighbour: a registration and a packet in its checkpoint, and one of each in its log."""
    log = StationLog(folder, "b", SETTINGS)
    wires = line(Station("a", 1, SETTINGS), log)
    log.process([Input(ADA, InputKind.MEETING), Input(ADA, InputKind.MESSAGE, 0, wish("jazz"))])
    wires.settle()
    log.process([Input(ADA, InputKind.MESSAGE, 1, news("jazz", payload=b"one"))])
    log.checkpoint()
    log.process([Input(ADA, InputKind.MESSAGE, 2, wish("live", "oslo"))])
    log.process([Input(ADA, InputKind.MESSAGE, 3, news("jazz", "live", payload=b"two"))])
    log.close()
    (folder / "lock").unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
