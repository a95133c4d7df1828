"""Reads the event files of the example `event_files` with TensorBoard's own reader and compares.

    python -m venv env && env/bin/pip install -r eval/requirements-tensorboard.txt
    cargo run -p voxmill-report --example event_files -- FOLDER
    env/bin/python eval/check_tensorboard.py FOLDER

FOLDER must be new. Exits with 1 at the first difference. Not part of the test command.
"""

import struct
import sys

from tensorboard.backend.event_processing import event_accumulator


def check(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: expected {expected}, found {found}")
    print(f"{what}: ok")


def png_size(png):
    return struct.unpack(">II", png[16:24])


events = event_accumulator.EventAccumulator(
    sys.argv[1], size_guidance={"images": 0, "audio": 0, "scalars": 0, "tensors": 0}
)
events.Reload()
tags = events.Tags()
check("scalar tags", sorted(tags["scalars"]), ["loss/mel", "loss/total"])
check("image tags", sorted(tags["images"]), ["alignment", "mel", "real above spoken"])
check("audio tags", tags["audio"], ["sample"])
check("text tags", tags["tensors"], ["settings"])

total = events.Scalars("loss/total")
check("steps, each once though 10 to 19 were trained twice", [e.step for e in total], list(range(30)))
check("value before the continued part", total[9].value, struct.unpack("f", struct.pack("f", 1 / 10))[0])
check("value of the continued part", total[19].value, 0.5)
check("wall time", total[19].wall_time, 1_700_000_119.0)

mel = events.Images("mel")
check("picture steps", [e.step for e in mel], [5, 15, 25])
check("mel size", (mel[0].width, mel[0].height), (800, 320))
check("mel size in its PNG", png_size(mel[0].encoded_image_string), (800, 320))
two = events.Images("real above spoken")[0]
check("size of two mels", (two.width, two.height), (800, 644))

sample = events.Audio("sample")[0]
check("sample rate", sample.sample_rate, 22050.0)
check("samples", sample.length_frames, 11025)
check("content type", sample.content_type, "audio/wav")
check("wav bytes", len(sample.encoded_audio_string), 44 + 2 * 11025)

check("text", events.Tensors("settings")[0].tensor_proto.string_val[0], b"size: *tiny*")
plugin = events.SummaryMetadata("settings").plugin_data.plugin_name
check("text page", plugin, "text")
