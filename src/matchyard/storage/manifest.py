"""Write and parse the manifest of a version, which lists its format, settings and files.

A manifest may come from a stranger, and its file names become paths. The parser therefore knows the
shape of every field of every format and refuses everything else, before any path is used.

    format 1   engine, algorithm, options, shards, files: [name, size, SHA-256]
    format 2   segments (the number of shards of each) instead of shards
    format 3   files: [name, size, SHA-256, XXH64]; applied: the last change of each source of
               changes; keys may have 32 bits
    format 4   NAME.blocks beside large files: see `storage.blocks`
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from matchyard.errors import StorageError
from matchyard.storage.blocks import BLOCKS

FORMAT = 4  # raised whenever the layout changes; a reader refuses newer formats
MANIFEST_BYTES = 1 << 26  # a longer manifest is not read
_MOST_FILES = 1 << 20
_MOST_OPTIONS = 256
_MOST_APPLIED = 1 << 20
_LONGEST_TEXT = 1024
_LARGEST = (1 << 63) - 1

_WORD = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_VERSION = re.compile(r"[0-9]{4,18}", re.ASCII)
_SEGMENT = r"(?:segments/(?P<segment>[0-9]{4,7})/)?"
_FIELD = r"[a-z][a-z0-9_]{0,63}"
_NAME = re.compile(
    rf"(?:{_SEGMENT}(?:shards/(?P<shard>[0-9]{{4,7}})/{_FIELD}\.npy|routes\.npy"
    rf"|vocabulary(?:\.arrow|\.slots\.npy|/{_FIELD}(?:\.arrow|\.slots\.npy|\.npy)))"
    rf"|keys(?:\.arrow|\.slots\.npy))(?:{re.escape(BLOCKS)})?",
    re.ASCII,
)
_HEX = re.compile(r"[0-9a-f]+", re.ASCII)


class File(NamedTuple):
    """One file of a version, as the manifest lists it."""

    name: str  # path below the version's folder
    size_bytes: int
    sha256: str  # detects malicious changes
    xxh64: str = ""  # detects damage, fast enough for every open; empty in formats 1 and 2


def is_version(name: str) -> bool:
    """True if the name has the form of a version number."""
    return _VERSION.fullmatch(name) is not None


def segment_folder(segment: int) -> str:
    """The folder of a segment below its version, with a slash at the end; empty for the first."""
    return f"segments/{segment:04}/" if segment else ""


def shard_folder(number: int, segment: int = 0) -> str:
    """The folder of a shard of a segment below its version."""
    return f"{segment_folder(segment)}shards/{number:04}/"


def describe(
    engine: str,
    algorithm: str,
    input_options: Any,
    options: Any,
    segments: Sequence[int],
    applied: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The fields of a manifest except the files; `segments` has the number of shards of each, `applied`
    the last change of each source of changes."""
    return {
        "engine": engine,
        "algorithm": algorithm,
        "options": {**input_options._asdict(), **options._asdict()},
        "segments": list(segments),
        "applied": dict(applied or {}),
    }


def applied_in(manifest: Mapping[str, Any]) -> dict[str, int]:
    """The last change of each source of changes that a version has."""
    return dict(manifest.get("applied", {}))  # formats 1 and 2 have none


def compose(settings: Mapping[str, Any], files: Sequence[File]) -> bytes:
    """The manifest of a version in the current format."""
    manifest = {"format": FORMAT, **settings, "files": [list(file) for file in files]}
    manifest["sha256"] = self_hash(manifest)
    return json.dumps(manifest, indent=1).encode()


def self_hash(manifest: Mapping[str, Any]) -> str:
    """The SHA-256 of all fields of a manifest except `sha256` itself."""
    content = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# -------------------------------------------------------------------- reading


def parse_manifest(data: bytes, folder: str) -> dict[str, Any]:
    """Parse and check the manifest of the version in `folder`. Its files become `File`s, and
    manifests of all formats get `segments`."""
    path = f"{folder}/manifest.json"
    if len(data) > MANIFEST_BYTES:
        raise StorageError(f"{path} has more than {MANIFEST_BYTES} bytes: it is no manifest")
    try:
        manifest = json.loads(data, parse_constant=_refuse_constant)
        if not isinstance(manifest, dict) or type(manifest.get("format")) is not int:
            raise StorageError(f"{path} is not a Matchyard manifest")
        _check_format(manifest["format"], folder)
        if manifest.get("sha256") != self_hash(manifest):
            raise StorageError(f"{path} is damaged: its checksum does not fit")
    except RecursionError:
        raise StorageError(f"{path} is not a Matchyard manifest: nested too deeply") from None
    except ValueError as error:
        raise StorageError(f"{path} cannot be read: {error}") from None
    return _checked(manifest, path)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _check_format(number: int, folder: str) -> None:
    if number > FORMAT:
        raise StorageError(
            f"{folder} has format {number if number < _LARGEST else 'of more than 63 bits'}; this "
            f"version of Matchyard reads up to {FORMAT}: install a newer one"
        )
    if number < 1:
        raise StorageError(f"{folder}/manifest.json has format {number}; formats start at 1")


def _checked(manifest: dict[str, Any], path: str) -> dict[str, Any]:
    """Check the shape of every field."""
    fields = _FIELDS[min(manifest["format"], FORMAT)]
    if set(manifest) != {"format", "sha256", *fields}:
        odd = sorted(set(manifest) ^ {"format", "sha256", *fields})
        raise StorageError(
            f"{path}: fields missing or unknown in format {manifest['format']}: "
            f"{', '.join(odd)[:200]}"
        )
    for name, is_valid in fields.items():
        if not is_valid(manifest[name]):
            raise StorageError(
                f"{path}: {name} is {_excerpt(manifest[name])}; expected {_EXPECTED[name]}"
            )
    width = 4 if manifest["format"] >= 3 else 3
    files = [_file(entry, width, path) for entry in manifest["files"]]
    segments = manifest.get("segments", [manifest.get("shards")])
    _check_names(files, segments, path)
    _check_blocks(files, manifest["format"], path)
    return {**manifest, "files": files, "segments": segments}


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST_FILES


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_TEXT


def _are_options(value: Any) -> bool:
    if not isinstance(value, dict) or len(value) > _MOST_OPTIONS:
        return False
    return all(_is_word(name) and _is_option(option) for name, option in value.items())


def _is_option(value: Any) -> bool:
    if type(value) is int:
        return -_LARGEST <= value <= _LARGEST
    return type(value) in (bool, float) or _is_short(value)


def _are_segments(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) < _MOST_FILES and all(map(_is_count, value))


def _are_files(value: Any) -> bool:
    return isinstance(value, list) and len(value) < _MOST_FILES


def _are_applied(value: Any) -> bool:
    if not isinstance(value, dict) or len(value) > _MOST_APPLIED:
        return False
    return all(
        _is_short(source) and type(change) is int and 0 <= change <= _LARGEST
        for source, change in value.items()
    )


_COMMON: dict[str, Callable[[Any], bool]] = {
    "engine": _is_word,
    "algorithm": _is_word,
    "options": _are_options,
    "files": _are_files,
}
_FIELDS = {
    1: {**_COMMON, "shards": _is_count},
    2: {**_COMMON, "segments": _are_segments},
    3: {**_COMMON, "segments": _are_segments, "applied": _are_applied},
    4: {**_COMMON, "segments": _are_segments, "applied": _are_applied},
}
_EXPECTED = {
    "engine": 'a name such as "tags"',
    "algorithm": 'a name such as "rarest"',
    "options": 'names with values such as {"leaf": 64}',
    "files": 'a list of files such as ["keys.arrow", 522, SHA-256, XXH64]',
    "shards": "a number of shards such as 1",
    "segments": "the number of shards of each segment such as [1]",
    "applied": 'sources with their last changes such as {"orders": 17}',
}


def _file(entry: Any, width: int, path: str) -> File:
    """Check one entry of the files. Its name must have a form that a writer makes, and is therefore
    a path below the folder. Its checksums become file names in the cache of object stores."""
    is_valid = (
        isinstance(entry, list)
        and len(entry) == width
        and isinstance(entry[0], str)
        and _NAME.fullmatch(entry[0]) is not None
        and type(entry[1]) is int
        and 0 <= entry[1] <= _LARGEST
        and _is_hex(entry[2], 64)
        and (
            width < 4 or entry[3] == "" or _is_hex(entry[3], 16)
        )  # empty if copied from an older format
    )
    if not is_valid:
        raise StorageError(f"{path}: a file is {_excerpt(entry)}; expected {_EXPECTED['files']}")
    return File(*entry)


def _is_hex(value: Any, length: int) -> bool:
    return isinstance(value, str) and len(value) == length and _HEX.fullmatch(value) is not None


def _check_names(files: Sequence[File], segments: Sequence[int], path: str) -> None:
    """Check that names are distinct, every shard has files, and every file has a shard."""
    if len({file.name for file in files}) < len(files):
        raise StorageError(f"{path} lists a file twice")
    if sum(segments) > len(files):
        raise StorageError(f"{path} has {sum(segments)} shards, but {len(files)} files")
    shards = set()
    for file in files:
        parts = _NAME.fullmatch(file.name)
        assert parts is not None  # `_file` has checked it
        segment, shard = int(parts["segment"] or 0), int(parts["shard"] or -1)
        if segment >= len(segments) or shard >= segments[segment]:
            raise StorageError(f"{path} lists {file.name}, which belongs to no shard of it")
        if parts["shard"] is not None:
            if file.name.rpartition("/")[0] + "/" != shard_folder(shard, segment):
                raise StorageError(f"{path} lists {file.name}, expected {shard_folder(shard)}…")
            shards.add((segment, shard))
    if len(shards) < sum(segments):
        raise StorageError(f"{path} has {sum(segments)} shards, but files of {len(shards)}")


def _check_blocks(files: Sequence[File], number: int, path: str) -> None:
    """Check that checksums of blocks belong to files."""
    names = {file.name for file in files}
    for name in names:
        if name.endswith(BLOCKS) and (number < 4 or name.removesuffix(BLOCKS) not in names):
            raise StorageError(f"{path} lists {name}, which belongs to no file of it")


def _excerpt(value: Any) -> str:
    """A short text of a value of any size, for messages."""
    if type(value) is int and abs(value) > _LARGEST:
        return "a number of more than 63 bits"
    if isinstance(value, list | dict) and len(value) > 8:
        return f"a {type(value).__name__} of {len(value)}"
    try:
        return repr(value)[:200]
    except (ValueError, RecursionError):  # numbers too long, or nesting too deep, for `repr`
        return f"a {type(value).__name__}"


# -------------------------------------------------------------------- asking


def needed(manifest: Mapping[str, Any], shards: Collection[int] | None = None) -> list[File]:
    """The files of a version, or only the files that some shards need. Shards are numbered through
    all segments."""
    files: list[File] = list(manifest["files"])
    if shards is None:
        return files
    wanted = {
        shard_folder(number, segment)
        for first, segment, number in numbered(manifest)
        if first + number in shards
    }
    return [
        file
        for file in files
        if "shards/" not in file.name or file.name[: file.name.rindex("/") + 1] in wanted
    ]


def numbered(manifest: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """Per shard: (number of shards before its segment, its segment, its number in the segment)."""
    shards, first = [], 0
    for segment, n_shards in enumerate(manifest["segments"]):
        shards += [(first, segment, number) for number in range(n_shards)]
        first += n_shards
    return shards
