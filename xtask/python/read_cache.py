"""Reads a Voxmill feature cache with pyarrow, memory-mapped, and prints its clips as JSON lines.

Usage: read_cache.py CACHE_DIR

Needs nothing of Voxmill: the newest index names, for every clip, the shard and the row in it.
Rows of a shard that the index does not name are superseded or removed.
"""

import json
import pathlib
import sys

import pyarrow as pa


def number(path):
    """`shard-v1-000007-<hash>.arrow` -> 7"""
    return int(path.name.split("-")[2])


def open_table(path):
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def main(folder):
    folder = pathlib.Path(folder)
    index = open_table(max(folder.glob("index-v1-*.arrow"), key=number))
    shards = {number(path): open_table(path) for path in folder.glob("shard-v1-*.arrow")}
    # Mapped, not read: pyarrow has allocated no memory for any column.
    copied = pa.total_allocated_bytes() > 0
    for entry in index.to_pylist():
        shard = shards[entry["shard"]]
        row = shard.slice(entry["row"], 1)
        mel = row["mel"].chunk(0)
        values = mel.flatten().to_numpy(zero_copy_only=True)
        clip = {name: row[name][0].as_py() for name in shard.column_names if name != "mel"}
        settings = json.loads(shard.schema.metadata[b"voxmill.settings"])
        assert clip["id"] == entry["id"]
        assert len(clip["tokens"]) == clip["token_count"] == entry["token_count"]
        mel_array = values.reshape(clip["frames"], clip["mel_channels"])
        print(
            json.dumps(
                {
                    "id": clip["id"],
                    "language": clip["language"],
                    "normalized": clip["normalized"],
                    "tokens": clip["tokens"],
                    "mel": mel_array.tobytes().hex(),
                    "shape": list(mel_array.shape),
                    "audio_bytes": entry["audio_bytes"],
                    "audio_modified_ns": entry["audio_modified_ns"],
                    "audio_hash": entry["audio_hash"].hex() if entry["audio_hash"] else None,
                    "text_hash": entry["text_hash"].hex(),
                    "hop_length": settings["audio"]["hop_length"],
                    "aligned": all(b.address % 64 == 0 for b in mel.buffers() if b),
                    "copied": copied,
                }
            )
        )


main(sys.argv[1])
