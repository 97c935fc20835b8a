"""Files and folders at a path or an address: read, write, list, publish."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from pyarrow import ArrowException
from pyarrow.fs import (
    FileSelector,
    FileSystem,
    FileType,
    FSSpecHandler,
    LocalFileSystem,
    PyFileSystem,
)

from matchyard.errors import StorageError, UsageError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_TABLES = {
    "a Delta table": re.compile("(^|/)_delta_log/"),
    "an Iceberg table": re.compile(r"(^|/)metadata/[^/]*\.metadata\.json$"),
    "a Hudi table": re.compile(r"(^|/)\.hoodie/"),
}
_STORES = ("s3", "gs", "gcs", "abfs", "wasb", "hdfs")  # each with several schemes, such as s3a
_PLAIN = "/=+,:@!$&'()*;"  # characters of names that addresses have as they are


def is_remote(path: Any) -> bool:
    """True if the path has a scheme, such as `s3://` or `dbfs:/`, other than `file`."""
    return _SCHEME.match(path_text(path)) is not None


def local_path(path: Any) -> Path:
    """A path of this machine."""
    return Path(path_text(path))


def path_text(path: Any) -> str:
    """A path or address as a string, `file:///a%20b` as `/a b`; refuses strings that no file system takes."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        raise UsageError(f"not a path: {path!r}; expected a string or a Path, e.g. 'music.index'")
    try:
        is_name = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise UsageError(f"not a path: {text!r} has a character that no file name can have")
    if text.startswith("file:/"):  # Spark writes one slash or three
        return f"/{unquote(text[6:]).lstrip('/')}"
    return text


@contextmanager
def open_stream(path: str) -> Iterator[Any]:
    """Open a file at a path or address for reading; its name's ending selects the decompression."""
    try:
        files, name = _files_at(path)
        with files.open_input_stream(name) as stream:
            yield stream
    except (OSError, ArrowException) as error:
        raise StorageError(f"{path} cannot be read: {error}") from None


@contextmanager
def open_file(path: str) -> Iterator[Any]:
    """Open a file at a path or address for reading at any place."""
    try:
        files, name = _files_at(path)
        opened = files.open_input_file(name)
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist") from None
    except StorageError:
        raise
    except (OSError, ArrowException) as error:
        raise StorageError(f"{path} cannot be read: {error}") from None
    with opened as file:
        yield file


@contextmanager
def create_file(path: str, makes_folder: bool = True) -> Iterator[Any]:
    """Write a file at a path or address, and make the folder that it is in. It has its name when it is whole;
    an error leaves what was there, but not in an object store."""
    files, name = _files_at(path)
    folder, _, last = name.rpartition("/")
    draft = name if is_remote(path) else f"{folder}/.{last}-{uuid.uuid4().hex[:12]}"
    try:
        if makes_folder or is_remote(path):
            files.create_dir(folder, recursive=True)
        try:
            with files.open_output_stream(draft) as file:
                yield file
        except BaseException:
            with suppress(OSError):
                files.delete_file(draft)
            raise
        if draft != name:
            files.move(draft, name)
    except StorageError:
        raise
    except (OSError, ArrowException) as error:
        raise StorageError(f"{path} cannot be written: {error}") from None


def is_file(path: str) -> bool:
    """True if there is a file, and not a folder."""
    files, name = _files_at(path)
    return bool(files.get_file_info(name).type == FileType.File)


def exists(path: str) -> bool:
    """True if there is a file or a folder that is not empty."""
    files, name = _files_at(path)
    info = files.get_file_info(name)
    if info.type == FileType.Directory:
        return bool(files.get_file_info(FileSelector(name)))
    return bool(info.type != FileType.NotFound)


def make_folder(path: str) -> None:
    """Make a folder, if it is not in an object store, which has none."""
    if not is_remote(path):
        files, name = _files_at(path)
        try:
            files.create_dir(name, recursive=True)
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error}") from None


def remove_folder(path: str) -> None:
    """Remove a folder if it exists."""
    files, name = _files_at(path)
    try:
        files.delete_dir(name)
    except OSError:
        return


def remove_abandoned(path: str, prefix: str, seconds: float) -> None:
    """Remove the folders beside a path whose names begin so and in which nothing was written for so long: those
    of killed processes."""
    files, name = _files_at(path)
    try:
        for entry in files.get_file_info(FileSelector(name.rstrip("/").rpartition("/")[0])):
            if entry.type != FileType.Directory or not entry.base_name.startswith(prefix):
                continue
            inside = files.get_file_info(FileSelector(entry.path, recursive=True))
            written = [one.mtime_ns or 0 for one in (entry, *inside)]
            if 0 < max(written) < time.time_ns() - seconds * 1e9:
                files.delete_dir(entry.path)
    except (OSError, ArrowException):  # another process removes them, or this one may not
        return


def below(path: str, name: str) -> str:
    """The path or address of a file below a folder; an address may end in a query."""
    begin, mark, query = path.partition("?") if is_remote(path) else (path, "", "")
    return f"{begin.rstrip('/')}/{name}{mark}{query}"


def beside(path: str, name: str) -> str:
    """The path or address of a file or folder beside another one."""
    begin, mark, query = path.partition("?") if is_remote(path) else (path, "", "")
    return f"{begin.rstrip('/').rpartition('/')[0]}/{name}{mark}{query}"


def without_links(path: str) -> str:
    """A path without symbolic links; an address as it is."""
    return path if is_remote(path) else os.path.realpath(path_text(path))


def is_within(path: str, other: str) -> bool:
    """True if a path or address is another one or lies below it."""
    if is_remote(path) != is_remote(other):
        return False
    if not is_remote(path):
        return f"{without_links(path)}/".startswith(f"{without_links(other)}/")
    (store, host, name), (other_store, other_host, other_name) = _named(path), _named(other)
    is_of_one_host = host in ("", other_host or host)  # HDFS has a default one
    return store == other_store and is_of_one_host and name.startswith(other_name)


def one_name(address: str) -> str:
    """The same text for all spellings of an address, without its secrets and options."""
    store, host, name = _named(address)
    return f"{store}://{host}{name}"


def _named(address: str) -> tuple[str, str, str]:
    """The store, the bucket or host, and the name that an address means, whatever its secrets and options; the name
    ends in a slash."""
    scheme, _, rest = address.partition("?")[0].partition(":")
    store = next((one for one in _STORES if scheme.lower().startswith(one)), scheme.lower())
    store = "gs" if store == "gcs" else store
    host = rest[2:].partition("/")[0] if rest.startswith("//") else ""
    name = rest[2 + len(host) :] if rest.startswith("//") else rest
    parts = [part for part in unquote(name).split("/") if part]
    if store not in ("abfs", "wasb"):  # there, the container is before the @
        host = host.rpartition("@")[2]
    if store == "hdfs":
        host = host.partition(":")[0]
    return store, host, "/".join(["", *parts, ""])


def publish_files(written: Sequence[str], whole: str, target: str, overwrite: bool) -> None:
    """Make files the content of a folder, with `_SUCCESS`. What is there is an error, or replaced. `whole` is a
    new folder on the same file system, in which they are collected."""
    files, folder = _files_at(whole)
    _, end = _files_at(target)
    files.create_dir(folder, recursive=True)
    for path in written:
        _, name = _files_at(path)
        files.move(name, f"{folder}/{name.rpartition('/')[2]}")
    if not is_remote(target):
        with files.open_output_stream(f"{folder}/_SUCCESS"):
            pass
        _replace_folder(files, folder, end, overwrite)
        return
    if exists(target) and not overwrite:
        raise UsageError(f"{target} has come into being meanwhile, and is left as it is")
    _empty_folder(files, end, target)  # a store has no folders that could be renamed
    try:
        files.create_dir(end, recursive=True)  # some have folders
        for path in written:
            last = _files_at(path)[1].rpartition("/")[2]
            files.move(f"{folder}/{last}", f"{end}/{last}")
        with files.open_output_stream(f"{end}/_SUCCESS"):
            pass
    except (OSError, ArrowException) as error:
        raise StorageError(f"{target} cannot be written: {error}") from None


def _empty_folder(files: Any, name: str, path: str) -> None:
    """Remove all files of a folder in an object store, `_SUCCESS` first; an error if some stay."""
    try:
        if files.get_file_info(f"{name}/_SUCCESS").type == FileType.File:
            files.delete_file(f"{name}/_SUCCESS")
        if files.get_file_info(name).type == FileType.Directory:
            files.delete_dir(name)
        entries = files.get_file_info(FileSelector(name, allow_not_found=True, recursive=True))
        left = [entry.path for entry in entries if entry.type == FileType.File]
    except (OSError, ArrowException) as error:
        raise StorageError(f"{path} cannot be emptied: {error}") from None
    if left:
        raise StorageError(f"{path} cannot be emptied: {left[0]} is there again")


def _replace_folder(files: Any, folder: str, target: str, overwrite: bool) -> None:
    """Rename a folder to the target; what was there stays unless that succeeds. Without `overwrite` only an empty
    folder may be there: then the system refuses to rename."""
    start, _, last = target.rpartition("/")
    before = f"{start}/.{last}.replaced-{uuid.uuid4().hex[:12]}"
    try:
        try:
            if overwrite and exists(target):
                files.move(target, before)
            files.move(folder, target)
        except BaseException:
            if exists(before) and not exists(target):
                files.move(before, target)
            raise
        remove_folder(before)
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error}") from None


class Found(NamedTuple):
    """A file at a path or address."""

    path: str
    n_bytes: int


def parquet_files(path: str) -> list[Found]:
    """The Parquet files at a path or address, which may be a folder. As in Spark, folders within it count if they are
    partitions, such as `day=1`, and names that begin with `_` or `.` do not count."""
    files, name = _files_at(path)
    try:
        info = files.get_file_info(name)
        if info.type == FileType.NotFound:
            raise StorageError(f"{path} does not exist")
        if info.type == FileType.File:
            return [Found(path, info.size)]
        entries = files.get_file_info(FileSelector(name, recursive=True))
    except (OSError, ArrowException) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{path} cannot be read: {error}") from None
    start = name.rstrip("/")
    _refuse_table(path, [entry.path for entry in entries])
    found = []
    for entry in sorted(entries, key=lambda entry: entry.path):
        rest = entry.path[entry.path.index(start) + len(start) :].lstrip("/")
        *folders, last = rest.split("/")
        hidden = last.startswith((".", "_")) or any(
            "=" not in folder or folder.startswith(".") for folder in folders
        )
        if entry.type == FileType.File and not hidden and entry.size:
            # Arrow decodes addresses, and fsspec does not.
            is_plain = not is_remote(path) or isinstance(files, PyFileSystem)
            found.append(Found(below(path, rest if is_plain else quote(rest, _PLAIN)), entry.size))
    return found


def _refuse_table(path: str, names: Sequence[str]) -> None:
    """Refuse the folder of a table format: files of rows that were deleted or replaced stay in it for a while."""
    for kind, is_of in _TABLES.items():
        if any(is_of.search(name) for name in names):
            raise UsageError(
                f"{path} is {kind}: its folder also has files of rows that were deleted or replaced. Read it "
                "as a DataFrame, or name the files of one version"
            )


def _files_at(path: str) -> tuple[Any, str]:
    """The file system of a path or address, and the name there."""
    if not is_remote(path):
        return LocalFileSystem(), path_text(path)
    return file_system(re.sub("^s3[an]://", "s3://", path))  # Spark's schemes for S3


def file_system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the name there."""
    try:
        files, root = FileSystem.from_uri(address)
        return files, root.rstrip("/")
    except ArrowException as error:
        reason = error
    except OSError as error:
        raise StorageError(f"{address} cannot be reached: {error}") from None
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise StorageError(
            f"{address}: {reason}; other stores are reached through fsspec, which is not installed"
        ) from None
    try:
        files, root = url_to_fs(address)
    except Exception as error:  # a store's client raises what it likes, and may quote the address
        raise StorageError(f"{address} cannot be reached: {error}") from None
    return PyFileSystem(FSSpecHandler(files)), root.rstrip("/")
