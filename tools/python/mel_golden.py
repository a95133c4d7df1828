"""Writes the fixtures that pin our log-mel to librosa's (run with librosa 0.11.0).

    python tools/python/mel_golden.py

Each case is a small 16-bit wav, the settings, and the frames that librosa gives, as raw
little-endian f32, frame after frame. cases.json lists them; the Rust test reads nothing else.
"""

import json
import pathlib
import wave

import librosa
import numpy as np

assert librosa.__version__ == "0.11.0", librosa.__version__
OUT = pathlib.Path(__file__).parents[2] / "crates/voxmill-audio/data/fixtures/audio/mel"
DEFAULT = dict(sample_rate=22050, n_fft=1024, hop_length=256, n_mels=80, f_min=0.0, f_max=8000.0)


def voice(rate, seconds):
    """A buzz through three resonances that glide, with breath noise and a pause: near speech."""
    rng = np.random.default_rng(1)
    t = np.arange(int(rate * seconds)) / rate
    pitch = 110 + 30 * np.sin(2 * np.pi * 2.1 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    y = np.zeros_like(t)
    for h in range(1, 60):
        hz = h * pitch
        gain = sum(a / (1 + ((hz - f * (1 + 0.2 * np.sin(9 * t))) / 90) ** 2)
                   for f, a in [(600, 1.0), (1400, 0.5), (2600, 0.25)])
        y += np.where(hz < rate / 2.2, gain, 0) * np.sin(h * phase) / h**0.5
    y = y / np.abs(y).max() * 0.8 + rng.normal(0, 1e-3, len(t))
    y[int(0.6 * len(y)):int(0.7 * len(y))] = 0
    return y


def tone(rate, samples):
    return 0.99 * np.sin(2 * np.pi * 220 * np.arange(samples) / rate)


def step(rate, samples):
    y = tone(rate, samples)
    y[: samples // 2] = 0
    return y


rng = np.random.default_rng(2)
CASES = {
    "voice": (voice(22050, 0.5), {}),
    "loud_noise": (rng.uniform(-1, 1, 5000), {}),
    "silence": (np.zeros(3000), {}),
    "tone": (tone(22050, 6000), {}),
    "step": (step(22050, 6000), {}),
    "shorter_than_window": (rng.uniform(-0.5, 0.5, 700), {}),
    "shorter_than_padding": (rng.uniform(-0.5, 0.5, 300), {}),
    "two_samples": (np.array([0.5, -0.25]), {}),
    "one_sample": (np.array([0.5]), {}),
    "wide": (voice(16000, 0.4), dict(sample_rate=16000, n_fft=2048, hop_length=300, n_mels=100, f_min=50.0)),
    "fine": (voice(24000, 0.3), dict(sample_rate=24000, hop_length=300, n_mels=100, f_max=12000.0)),
    "no_power_of_two": (voice(16000, 0.3), dict(sample_rate=16000, n_fft=800, hop_length=200, n_mels=64, f_max=7600.0)),
}

OUT.mkdir(parents=True, exist_ok=True)
index = []
for name, (signal, changes) in CASES.items():
    s = {**DEFAULT, **changes}
    pcm = np.clip(np.round(signal * 32768), -32768, 32767).astype("<i2")
    with wave.open(str(OUT / f"{name}.wav"), "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(s["sample_rate"])
        f.writeframes(pcm.tobytes())
    y = pcm.astype(np.float32) / 32768
    bank = librosa.filters.mel(sr=s["sample_rate"], n_fft=s["n_fft"], n_mels=s["n_mels"], fmin=s["f_min"], fmax=s["f_max"])
    spectrum = np.abs(librosa.stft(y, n_fft=s["n_fft"], hop_length=s["hop_length"], center=True, pad_mode="reflect"))
    mel = np.log(np.maximum(1e-5, bank @ spectrum))
    mel.T.astype("<f4").tofile(OUT / f"{name}.mel.f32")
    index.append(dict(name=name, frames=mel.shape[1], settings=s))
(OUT / "cases.json").write_text(json.dumps(index, indent=1) + "\n")
print(f"{len(index)} cases, {sum(f.stat().st_size for f in OUT.iterdir())} bytes in {OUT}")
