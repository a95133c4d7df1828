"""The demo corpus as the evaluation sees it: which sentences, which recordings, which voices."""

import csv
import pathlib
import subprocess
import tempfile
from dataclasses import dataclass

import librosa

SAMPLE_RATE = 16_000  # what both recognisers want; the main voice's recordings have no more


@dataclass(frozen=True)
class Clip:
    id: str
    text: str
    speaker: str
    language: str
    path: pathlib.Path


def clips(corpus: pathlib.Path, manifest: str) -> list[Clip]:
    """The rows of one of the corpus's manifests. Quote characters are text."""
    with open(corpus / manifest, encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="|", quoting=csv.QUOTE_NONE)
        return [
            Clip(row["id"], row["text"], row["speaker"], row["language"], recording(corpus, row["id"]))
            for row in rows
        ]


def recording(corpus: pathlib.Path, clip_id: str) -> pathlib.Path:
    for ending in ("ogg", "wav", "flac"):
        path = corpus / "wavs" / f"{clip_id}.{ending}"
        if path.exists():
            return path
    raise SystemExit(f"error: no recording of {clip_id} in {corpus / 'wavs'}")


def samples(path: pathlib.Path):
    """Mono samples at 16 kHz, for recordings and synthesised files alike."""
    return librosa.load(path, sr=SAMPLE_RATE, mono=True)[0]


def synthesize(voxmill, checkpoint, texts: list[str], folder: pathlib.Path, *voice: str) -> list[pathlib.Path]:
    """Has the program say each text; gives the files in the order of the texts.

    `voice` is `--speaker NAME` or `--reference-audio FILE`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as lines:
        lines.write("".join(f"{text}\n" for text in texts))
        lines.flush()
        command = [voxmill, "synthesize", "--checkpoint", checkpoint, "--text-file", lines.name]
        # The slash says that a folder is meant: one file for each line.
        command += ["--output", f"{folder}/", *voice]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: voxmill synthesize failed\n\n{done.stderr}")
    files = [folder / f"{number:03}.wav" for number in range(1, len(texts) + 1)]
    missing = [file.name for file in files if not file.exists()]
    if missing:
        raise SystemExit(f"error: voxmill synthesize did not write {', '.join(missing)}")
    return files
