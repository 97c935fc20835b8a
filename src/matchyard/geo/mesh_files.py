"""Meshes in files: GeoJSON with positions on Earth, and our own format in Parquet."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from matchyard.errors import StorageError, UsageError
from matchyard.geo.mesh import Mesh, from_points

_FORMAT = b"matchyard mesh 1"
_MOST_ERROR = 0.05  # the largest relative error of east-west distances by the projection
_EXAMPLE = (
    '{"type": "FeatureCollection", "features": [{"type": "Feature", "id": "roof", '
    '"geometry": {"type": "Point", "coordinates": [8.95, 46.01]}, "properties": {}}]}'
)


def from_geojson(
    path: str | os.PathLike[str], range_m: float, interference_m: float | None = None
) -> Mesh:
    """Read a mesh from the points of a GeoJSON file. Positions are in metres from the middle of the points.
    The projection is equirectangular; 25 km off the middle at 45°, its error is 0.4 %. Names are the features'
    ids, or their properties `id` or `name`."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; expected a file of GeoJSON") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}; expected e.g. {_EXAMPLE}") from None
    features = document.get("features") if isinstance(document, dict) else None
    if not isinstance(features, list) or not features:
        raise UsageError(f"{path} has no features; expected e.g. {_EXAMPLE}")
    places = np.array([_place(path, number, one) for number, one in enumerate(features)])
    names = [_name(number, one) for number, one in enumerate(features)]
    turned = np.exp(1j * np.radians(places[:, 0])).mean()  # a mean that works across the date line
    origin = (float(np.degrees(np.angle(turned))), float(places[:, 1].mean()))
    scales = np.cos(np.radians(places[:, 1])) / np.cos(np.radians(origin[1]))
    worst = int(np.abs(scales - 1).argmax())
    if not abs(scales[worst] - 1) <= _MOST_ERROR:
        raise UsageError(
            f"{path}: feature {worst} at {places[worst].tolist()} is too far from the others for a plane map: "
            f"distances there would be wrong by {abs(scales[worst] - 1):.0%}; expected places of one region"
        )
    flat = Mesh(places, 1, 1, (0, 0, 0, 0), origin=origin).metres(places)
    try:
        made = from_points(flat, range_m, interference_m, names=names)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    return Mesh(made.points, made.r_c, made.r_i, made.region, made.names, origin)


def read_mesh(path: str | os.PathLike[str]) -> Mesh:
    """Read a mesh that `save_mesh` wrote."""
    try:
        table = pq.read_table(path)
        settings = json.loads(table.schema.metadata[_FORMAT])
        names = table["name"].to_pylist() if "name" in table.column_names else None
        points = np.column_stack([table["x"].to_numpy(), table["y"].to_numpy()])
        made = from_points(points, settings["r_c"], settings["r_i"], settings["region"], names)
        origin = settings["origin"] and (float(settings["origin"][0]), float(settings["origin"][1]))
    except FileNotFoundError:
        raise StorageError(f"no file {path}; `matchyard geo mesh … -o {path}` makes one") from None
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
        raise StorageError(
            f"{path} is no mesh ({error}); expected a file of `matchyard geo mesh … -o {path}`"
        ) from None
    return Mesh(made.points, made.r_c, made.r_i, made.region, made.names, origin)


def save_mesh(mesh: Mesh, path: str | os.PathLike[str]) -> None:
    """Write positions, names and ranges to a Parquet file, for `read_mesh`."""
    x, y = mesh.points.T
    names = {} if mesh.names is None else {"name": pa.array(mesh.names)}
    settings = {
        "r_c": mesh.r_c, "r_i": mesh.r_i, "region": mesh.region, "origin": mesh.origin,
    }  # fmt: skip
    table = pa.table({**names, "x": x, "y": y}).replace_schema_metadata(
        {_FORMAT: json.dumps(settings)}
    )
    pq.write_table(table, path)


def _place(path: object, number: int, feature: Any) -> tuple[float, float]:
    """The longitude and latitude of a feature."""
    geometry = feature.get("geometry") if isinstance(feature, dict) else None
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if not isinstance(geometry, dict) or kind != "Point":
        raise UsageError(f"{path}: feature {number} is a {kind}; expected a Point as in {_EXAMPLE}")
    place = geometry.get("coordinates")
    if not isinstance(place, list) or len(place) < 2 or not all(map(_is_number, place[:2])):
        raise UsageError(
            f"{path}: feature {number} has coordinates {place!r}; expected longitude and latitude, e.g. [8.95, 46.01]"
        )
    longitude, latitude = place[:2]
    if not (-180 <= longitude <= 180 and -90 <= latitude <= 90):
        raise UsageError(
            f"{path}: feature {number} is at {place[:2]}; expected a longitude from -180 to 180 and a latitude "
            "from -90 to 90, e.g. [8.95, 46.01]"
        )
    return longitude, latitude


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def _name(number: int, feature: dict[str, Any]) -> str:
    given = feature.get("properties")
    properties = given if isinstance(given, dict) else {}
    for named in (feature.get("id"), properties.get("id"), properties.get("name")):
        if named is not None:
            return str(named)
    return f"feature {number}"
