"""What a PyTorch user would write instead of `voxmill prepare`: a DataLoader whose workers decode with
soundfile and compute the same log-mel with torch.stft. Prints one JSON line with clips per second.

usage: dataloader.py DATASET WORKERS
"""

import json
import sys
import time
from pathlib import Path

import librosa
import soundfile
import torch
from torch.utils.data import DataLoader, Dataset

RATE, N_FFT, HOP, MELS = 22050, 1024, 256, 80


class Clips(Dataset):
    def __init__(self, folder: Path):
        rows = (folder / "metadata.csv").read_text(encoding="utf-8").splitlines()
        self.files = [str(folder / "wavs" / f"{row.split('|')[0]}.wav") for row in rows]
        self.window = torch.hann_window(N_FFT)
        self.filters = torch.from_numpy(
            librosa.filters.mel(sr=RATE, n_fft=N_FFT, n_mels=MELS, fmin=0, fmax=8000)
        )

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        samples, rate = soundfile.read(self.files[index], dtype="float32")
        assert rate == RATE
        spectrum = torch.stft(
            torch.from_numpy(samples), N_FFT, HOP, window=self.window, center=True, pad_mode="reflect", return_complex=True
        )
        return (self.filters @ spectrum.abs()).clamp(min=1e-5).log()


def main():
    folder, workers = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    clips = Clips(folder)
    loader = DataLoader(clips, batch_size=16, num_workers=workers, collate_fn=list)
    begin = time.perf_counter()
    frames = sum(mel.shape[1] for batch in loader for mel in batch)
    seconds = time.perf_counter() - begin
    print(json.dumps({"clips": len(clips), "frames": frames, "seconds": seconds, "clips_per_second": len(clips) / seconds}))


main()
