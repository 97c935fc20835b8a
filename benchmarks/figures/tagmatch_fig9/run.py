"""Memory of the tables by size of the database; on a GPU, the part on the card."""

import numpy as np
from benchmarks.shared.steps import copied, prepared

from matchyard.bench.figures.plots import series_of

_PARTS = {
    "key table": ("keys", "key_start", "removed_keys", "removed_at"),
    "partition table": ("masks", "mask_start", "block_start"),
    "vocabulary": ("vocabulary",),
    # All other arrays: signatures, blocks and prefixes, and the tags for the exact check.
    "tagset table": (),
}
_PART_OF = {array: part for part, arrays in _PARTS.items() for array in arrays}


def run(figure):
    for share in figure.settings["shares"]:
        size = int(share * figure.size)
        for algorithm in ("tagmatch", "rarest"):
            index, source = prepared("twitter", size, algorithm, device=figure.device)
            if figure.device == "gpu":
                n_bytes = copied(index, source).n_bytes
                yield {"series": algorithm, "panel": algorithm, "x": size, "y": n_bytes / 1e6,
                       "on_card_each": n_bytes / size}  # fmt: skip
                continue
            memory = index.memory()
            assert sum(memory.values()) == index.info()["index_bytes"]
            parts = dict.fromkeys(_PARTS, 0)
            for array, n_bytes in memory.items():
                parts[_PART_OF.get(array, "tagset table")] += n_bytes
            for part, n_bytes in parts.items():
                if n_bytes:
                    yield {"series": part, "panel": algorithm, "x": size, "y": n_bytes / 1e6,
                           "bytes_each": n_bytes / size}  # fmt: skip


def judge(figure, rows):
    ours = series_of(row for row in rows if row["panel"] == "tagmatch")
    slopes = {}
    for part in ("key table", "tagset table"):
        x, y = np.log([(point["x"], point["y"]) for point in ours[part]]).T
        slopes[part] = float(np.polyfit(x, y, 1)[0])
    last = {part: points[-1]["y"] for part, points in ours.items()}
    partitions = last["partition table"] / last["key table"]
    each = {
        name: sum(
            row.get("bytes_each", 0.0)
            for row in rows
            if row["panel"] == name and _is_last(row, figure)
        )
        for name in ("tagmatch", "rarest")
    }
    host = last["key table"] / (last["key table"] + last["partition table"] + last["vocabulary"])
    text = (
        f"memory grows with the size to the power of {slopes['key table']:.2f} (keys) and "
        f"{slopes['tagset table']:.2f} (tag sets), and the partition table is {partitions:.1%} of "
        f"the key table (paper: a small portion); but the key table is {host:.0%} of what the paper "
        f"would keep on the host (paper: almost all), since exact matching needs the vocabulary; "
        f"{each['tagmatch']:.0f} bytes per subscription in all, and {each['rarest']:.0f} for rarest"
    )
    on_card = [
        row["on_card_each"] for row in rows if "on_card_each" in row and _is_last(row, figure)
    ]
    if on_card:
        text += f"; {min(on_card):.0f} to {max(on_card):.0f} of them on {figure.card}"
    holds = [all(0.9 < slope < 1.1 for slope in slopes.values()), partitions < 0.2, host > 0.8]
    if all(holds):
        return "reproduced", text
    return ("partly", text) if holds[0] and holds[1] else ("not", text)


def _is_last(row, figure):
    return row["x"] == int(figure.settings["shares"][-1] * figure.size)
