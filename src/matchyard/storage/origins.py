"""The versions that an object in memory was opened from or saved as: a save over another one would lose changes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from matchyard.errors import ConflictError
from matchyard.storage.file_places import is_remote, local_path, one_name
from matchyard.storage.retention import has_current
from matchyard.storage.versions import AnyPath, current_version, manifest_of


class Origins:
    """One version per path, known by the SHA-256 in its manifest: numbers begin anew in a new folder.

    An object that was neither opened from a path nor saved there replaces what is there.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def note(self, path: AnyPath, manifest: Mapping[str, Any]) -> None:
        """Remember the version that has the contents of the object."""
        self._known[_identity(path)] = manifest["sha256"]

    def check(self, path: AnyPath, overwrite: bool) -> None:
        """Refuse to publish over another version than the known one. The caller is the only writer."""
        known = self._known.get(_identity(path))
        if overwrite or known is None or not has_current(path):
            return
        version = current_version(path)
        if manifest_of(path, version)["sha256"] != known:
            raise ConflictError(
                f"{path} is at version {version} now: another writer has published since it was opened or saved "
                "here, and the changes of that writer would be lost. Open it again and repeat yours, or save with "
                "overwrite=True"
            )


def _identity(path: AnyPath) -> str:
    """The same text for all spellings of a path."""
    return one_name(str(path)) if is_remote(path) else os.path.realpath(local_path(path))
