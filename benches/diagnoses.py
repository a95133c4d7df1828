"""Does `voxmill profile` find what was planted? Causes by severities, as a confusion matrix.

    python3 benches/diagnoses.py --voxmill target/release/voxmill --corpus DEMO --rounds 1

Each cause is planted in the real pipeline with the real model; a healthy run has nothing planted. What counts is the
first finding. Others on this machine are told apart: run it on a quiet one.
"""

import argparse
import collections
import json
import pathlib
import shutil
import subprocess
import tempfile
import time

SEVERITIES = ("mild", "middle", "strong")

# Flags for each severity. `warm` keeps the cache of the dataset, `cold` begins without one, `off` has none.
CAUSES = {
    "slow_disk": ("cold", ["--plant read=60ms"], ["--plant read=120ms"], ["--plant read=300ms"]),
    "few_workers": ("off", ["--num-workers 1 --model-size nano --plant mel=15ms"], ["--num-workers 1 --model-size nano --plant mel=25ms"], ["--num-workers 1 --model-size nano --plant mel=35ms"]),
    "small_buffer": ("off", ["--buffer-size 1 --prefetch-buffer-size 1 --plant uneven=300ms"], ["--buffer-size 1 --prefetch-buffer-size 1 --plant uneven=500ms"], ["--buffer-size 1 --prefetch-buffer-size 1 --plant uneven=800ms"]),
    "slow_resampling": ("cold", ["--plant resample=40ms"], ["--plant resample=80ms"], ["--plant resample=200ms"]),
    "huge_clip": ("cold", ["--plant huge=2000ms"], ["--plant huge=4000ms"], ["--plant huge=8000ms"]),
    "slow_transfer": ("warm", ["--plant transfer=300ms"], ["--plant transfer=500ms"], ["--plant transfer=1000ms"]),
    "slow_collating": ("warm", ["--plant collate=300ms"], ["--plant collate=500ms"], ["--plant collate=1000ms"]),
    "memory_budget": ("off", ["--ram-budget 12MB --plant read=20ms"], ["--ram-budget 10MB --plant read=20ms"], ["--ram-budget 8MB --plant read=20ms"]),
    "model_too_small": ("off", ["--model-size nano --batch-size 4 --plant mel=30ms"], ["--model-size nano --batch-size 4 --plant mel=60ms"], ["--model-size nano --batch-size 4 --plant mel=120ms"]),
    "oversubscribed": ("warm", ["--plant rivals=2"], ["--plant rivals=4"], ["--plant rivals=8"]),
    "padding": ("warm", ["--pad-to-fixed-length"], ["--pad-to-fixed-length"], ["--pad-to-fixed-length"]),
    "cold_cache": ("cold", ["--plant mel=30ms"], ["--plant mel=60ms"], ["--plant mel=120ms"]),
}
