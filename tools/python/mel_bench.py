"""Times librosa's log-mel on one thread, on the clips that `cargo bench --bench mel` uses.

    python tools/python/mel_bench.py [folder of wavs]

Prints milliseconds per second of audio: the fastest and the median of 15 passes over all clips.
The filterbank is made once, outside the timing, as a careful user would.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = "1"

import pathlib
import statistics
import sys
import time

import librosa
import numpy as np
import soundfile

default = pathlib.Path(__file__).parents[2] / "../shared/data/ljspeech-32/wavs"
folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("VOXMILL_BENCH_CLIPS", default))
clips = [soundfile.read(path, dtype="float32")[0] for path in sorted(folder.glob("*.wav"))]
bank = librosa.filters.mel(sr=22050, n_fft=1024, n_mels=80, fmin=0, fmax=8000)


def log_mel(y):
    spectrum = np.abs(librosa.stft(y, n_fft=1024, hop_length=256, center=True, pad_mode="reflect"))
    return np.log(np.maximum(1e-5, bank @ spectrum))


seconds = sum(len(y) for y in clips) / 22050
times = []
for _ in range(15):
    start = time.perf_counter()
    for y in clips:
        log_mel(y)
    times.append((time.perf_counter() - start) * 1000 / seconds)
print(f"librosa {librosa.__version__}, numpy {np.__version__}, {len(clips)} clips, {seconds:.1f} s of audio")
print(f"fastest {min(times):.3f}, median {statistics.median(times):.3f} ms per second of audio")
