#!/usr/bin/env python3
"""Is the new program at least as fast as the old one?

Runs two programs in turns with the same settings and seeds, and compares the CPU time of `prepare` with an empty cache,
and the step times and the CPU time of `train` with a warm one. Ratios are new / old: below 1, the new one is faster. CPU time says most on a
machine that others use too. The losses of both must be the same, bit for bit.

    python3 benches/side_by_side.py OLD NEW --rounds 8 --data DATASET --copies 10
"""
import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

WARM_UP = 5


def cpu_of(command):
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - begin


def copied(dataset, copies, folder):
    """The dataset, several times over under other names: one pass should take some seconds."""
    (folder / "wavs").mkdir(parents=True)
    rows = (dataset / "metadata.csv").read_text(encoding="utf-8").splitlines()
    with (folder / "metadata.csv").open("w", encoding="utf-8") as manifest:
        for copy in range(copies):
            for row in rows:
                name, text = row.split("|", 1)
                manifest.write(f"{copy}-{name}|{text}\n")
                for audio in (dataset / "wavs").glob(f"{name}.*"):
                    shutil.copy(audio, folder / "wavs" / f"{copy}-{audio.name}")


def train(program, folder, cache, seed, steps):
    cpu, _ = cpu_of([program, "train", "--run-dir", str(folder), "--cache-dir", cache, "--seed", str(seed), "--batch-size", "8",
                     "--max-steps", str(steps + WARM_UP), "--no-evaluation", "--sample-every", "0", "--no-dashboard",
                     "--checkpoint-every", "1000000"])
    events = [json.loads(line) for line in (folder / "events.jsonl").open()]
    steps = [event for event in events if event["event"] == "step"]
    times = [(event["waited"] + event["service"] + event["overhead"]) / 1e6 for event in steps if event["step"] > WARM_UP]
    return cpu, statistics.mean(times), [event["values"] for event in steps]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--copies", type=int, default=10)
    args = parser.parse_args()
    programs = {"old": os.path.abspath(args.old), "new": os.path.abspath(args.new)}
    ratios = {"prepare, CPU": [], "prepare, wall": [], "train, CPU": [], "train, step": []}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        copied(args.data, args.copies, folder / "data")
        cache = str(folder / "warm")
        subprocess.run([programs["new"], "prepare", "--cache-dir", cache, "--batch-size", "8"], check=True, capture_output=True)
        for number in range(args.rounds):
            # Which of the two is first changes, so that a machine that slows down favours neither.
            order = ["old", "new"] if number % 2 == 0 else ["new", "old"]
            found = {}
            for which in order:
                cold = folder / "cold"
                prepared = cpu_of([programs[which], "prepare", "--train-data", str(folder / "data"), "--cache-dir", str(cold)])
                shutil.rmtree(cold)
                found[which] = prepared + train(programs[which], folder / f"{which}-{number}", cache, number, args.steps)
            if found["old"][4] != found["new"][4]:
                sys.exit(f"round {number + 1}: the losses differ")
            for place, name in enumerate(ratios):
                ratios[name].append(found["new"][place] / found["old"][place])
            print(f"round {number + 1}:", ", ".join(
                f"{name} {found['old'][place]:.3g} → {found['new'][place]:.3g}" for place, name in enumerate(ratios)), flush=True)
    for name, each in ratios.items():
        print(f"{name}: median {statistics.median(each):.3f} ({min(each):.3f} to {max(each):.3f})")
    print("losses: the same in every round")


if __name__ == "__main__":
    main()
