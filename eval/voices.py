"""Does the reference recording decide the voice? And does the pitch follow it?

    python eval/voices.py --voxmill target/release/voxmill --checkpoint RUN/checkpoints/best --corpus DEMO

Who is heard is decided by something that knows nothing of the model, in two ways. `mean`: the voice
whose recordings' mean log-mel shape is nearest. What is said moves that shape, too (sentences full
of s are brighter), so `sentence` compares with the same sentence said by each voice; flite, which
the demo corpus was made with, says them. How often `mean` is right on real recordings is measured
first, and the pitch is librosa's pyin. Without --checkpoint only that is done.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
from collections import defaultdict

import librosa
import numpy as np

from corpus import SAMPLE_RATE, clips, samples, synthesize

N_FFT = 512
HOP = 160


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=pathlib.Path, required=True, help="the unpacked demo corpus")
    parser.add_argument("--voxmill", default="voxmill", help="the program [default: the one on the path]")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="what to speak with")
    parser.add_argument("--voices", nargs="+", help="[default: every voice of the language of the held-out sentences]")
    parser.add_argument("--references", type=int, default=4, help="reference recordings of each voice [default: 4]")
    parser.add_argument("--sentences", type=int, default=20, help="sentences for each reference [default: 20]")
    parser.add_argument("--check", type=int, default=20, help="real recordings to check the measure with [default: 20]")
    parser.add_argument("--wavs", type=pathlib.Path, help="keep the synthesised files here")
    parser.add_argument("--output", type=pathlib.Path, default="voices.json", help="[default: voices.json]")
    return parser.parse_args()


def main():
    args = arguments()
    held_out = clips(args.corpus, "metadata_eval.csv")
    texts = [clip.text for clip in held_out[: args.sentences]]
    by_voice = recordings_by_voice(args, held_out[0].language)

    # References, recordings to check with, and recordings to know the voices by: no clip is in two of them.
    references = {voice: rows[: args.references] for voice, rows in by_voice.items()}
    check = {voice: rows[args.references :][: args.check] for voice, rows in by_voice.items()}
    known = {voice: rows[args.references + args.check :] for voice, rows in by_voice.items()}
    means = {
        voice: np.mean([shape(samples(clip.path)) for clip in rows], axis=0) for voice, rows in known.items()
    }
    real = [judge(means, voice, clip.path) for voice, rows in check.items() for clip in rows]
    report = {"checkpoint": args.checkpoint and str(args.checkpoint), "real": summary(real), "real_files": real}
    print_table("Real recordings, none of which the measure has met", report["real"])

    if args.checkpoint:
        with tempfile.TemporaryDirectory() as scratch:
            folder = args.wavs or pathlib.Path(scratch)
            said = said_by_each(list(by_voice), texts, folder)
            made = []
            for voice, rows in references.items():
                for clip in rows:
                    voice_of = ("--reference-audio", str(clip.path))
                    files = synthesize(args.voxmill, args.checkpoint, texts, folder / clip.id, *voice_of)
                    for file, shapes in zip(files, said):
                        matched = nearest(shapes, shape(samples(file)))
                        made.append(judge(means, voice, file) | {"reference": clip.id, "by_sentence": matched})
        report |= {"synthesised": summary(made), "synthesised_files": made}
        by_sentence = [one | {"heard_as": one["by_sentence"]} for one in made]
        report["synthesised_by_sentence"] = summary(by_sentence)
        print()
        print_table("Synthesised, nearest mean", report["synthesised"], report["real"])
        print()
        print_table("Synthesised, nearest saying of the same sentence", report["synthesised_by_sentence"], report["real"])
    args.output.write_text(json.dumps(report, indent=1) + "\n")


def said_by_each(voices, texts, folder):
    """For each sentence, the shape that each voice gives it."""
    folder.mkdir(parents=True, exist_ok=True)
    said = []
    for number, text in enumerate(texts):
        shapes = {}
        for voice in voices:
            wav = folder / f"flite-{voice}-{number}.wav"
            subprocess.run(["flite", "-voice", voice, "-t", text, "-o", str(wav)], check=True)
            shapes[voice] = shape(samples(wav))
        said.append(shapes)
    return said


def nearest(shapes, found):
    return min(shapes, key=lambda voice: np.linalg.norm(found - shapes[voice]))


def recordings_by_voice(args, language):
    by_voice = defaultdict(list)
    for clip in clips(args.corpus, "metadata_train.csv"):
        if clip.speaker in args.voices if args.voices else clip.language == language:
            by_voice[clip.speaker].append(clip)
    least = args.references + args.check + 5
    for voice in args.voices or []:
        if voice not in by_voice:
            raise SystemExit(f"error: no voice {voice} in {args.corpus}")
    for voice, rows in by_voice.items():
        if len(rows) < least:
            raise SystemExit(f"error: {voice} has {len(rows)} recordings; {least} are needed\n\nhint: lower --check")
        # All voices are known by equally many recordings.
        fewest = min(len(rows) for rows in by_voice.values())
        by_voice[voice] = rows[:fewest]
    return dict(by_voice)


def shape(y):
    """The mean log-mel spectrum of the frames that are not silence, without its level."""
    mel = librosa.feature.melspectrogram(y=y, sr=SAMPLE_RATE, n_fft=N_FFT, hop_length=HOP, n_mels=40, fmax=7_600)
    loudness = mel.sum(axis=0)
    loud = mel[:, loudness > 1e-4 * loudness.max()]
    mean = np.log(np.maximum(loud, 1e-8)).mean(axis=1)
    return mean - mean.mean()


def median_f0(y):
    """Of the voiced frames; None where there are none."""
    f0, voiced, _ = librosa.pyin(y, fmin=60, fmax=350, sr=SAMPLE_RATE, frame_length=1024)
    return float(np.median(f0[voiced])) if voiced.any() else None


def judge(means, voice, path):
    y = samples(path)
    distances = {other: float(np.linalg.norm(shape(y) - mean)) for other, mean in means.items()}
    return {
        "file": path.name,
        "voice": voice,
        "heard_as": min(distances, key=distances.get),
        "distances": distances,
        "f0_hz": median_f0(y),
    }


def summary(judged):
    by_voice = defaultdict(list)
    for one in judged:
        by_voice[one["voice"]].append(one)
    voices = {}
    for voice, files in by_voice.items():
        f0 = [one["f0_hz"] for one in files if one["f0_hz"] is not None]
        voices[voice] = {
            "files": len(files),
            "right": sum(one["heard_as"] == voice for one in files),
            "median_f0_hz": statistics.median(f0) if f0 else None,
        }
    right = sum(one["heard_as"] == one["voice"] for one in judged)
    return {"files": len(judged), "right": right, "share": right / len(judged), "voices": voices}


def print_table(title, found, real=None):
    print(f"{title}: {found['right']} of {found['files']} right ({100 * found['share']:.1f} %)\n")
    print("| voice | right | median F0, Hz |" + (" real F0, Hz |" if real else ""))
    print("|---|---|---|" + ("---|" if real else ""))
    for voice, v in found["voices"].items():
        print(f"| {voice} | {v['right']} of {v['files']} | {hz(v)} |" + (f" {hz(real['voices'][voice])} |" if real else ""))


def hz(voice):
    return "none voiced" if voice["median_f0_hz"] is None else f"{voice['median_f0_hz']:.0f}"


if __name__ == "__main__":
    main()
