#!/usr/bin/env python3
"""Does `voxmill profile` report the speed that `voxmill train` has?

Runs both in turns with the same settings and a warm cache, and holds steps of the same shape against each other, as their logs have
them: waiting, the step, and what comes between steps; neither saves or validates on the way. A ratio above 1: profiling is slower. The means
of one round hold what else the machine did; the faster quarter of all rounds' steps holds less of it.

    python3 benches/profile_cost.py --voxmill target/release/voxmill --rounds 10
"""
import argparse
import collections
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

WARM_UP = 5


def measure(program, verb, run_dir, flags):
    where = ["--run-dir", run_dir] if verb == "train" else ["--runs-dir", run_dir]
    done = subprocess.run([program, verb, *where, *flags], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{verb}: {done.stderr}")
    by_shape = collections.defaultdict(list)
    for log in pathlib.Path(run_dir).rglob("events.jsonl"):
        for line in log.open():
            event = json.loads(line)
            if event["event"] == "step" and "phase" not in event and event["step"] > WARM_UP:
                by_shape[event["shape"]].append((event["waited"] + event["service"] + event["overhead"]) / 1e6)
    return by_shape


def faster_quarter(times):
    times = sorted(times)
    return statistics.mean(times[: max(1, len(times) // 4)])


def ratio(profile, train, middle=statistics.mean):
    common = sorted(set(profile) & set(train))
    weights = [min(len(profile[shape]), len(train[shape])) for shape in common]
    of = [middle(profile[shape]) / middle(train[shape]) for shape in common]
    return sum(weight * each for weight, each in zip(weights, of)) / sum(weights)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voxmill", default="target/release/voxmill")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    program = os.path.abspath(args.voxmill)
    ratios = []
    all_steps = {verb: collections.defaultdict(list) for verb in ("train", "profile")}
    with tempfile.TemporaryDirectory() as folder:
        cache = ["--cache-dir", f"{folder}/cache", "--batch-size", "8"]
        subprocess.run([program, "prepare", *cache], check=True, capture_output=True)
        train = ["--max-steps", str(args.steps + WARM_UP), "--no-evaluation", "--sample-every", "0", "--no-dashboard",
                 "--checkpoint-every", "1000000"]
        profile = ["--num-steps", str(args.steps), "--warmup", str(WARM_UP), "--json"]
        for number in range(args.rounds):
            # Which of the two is first changes, so that a machine that slows down favours neither.
            order = ["train", "profile"] if number % 2 == 0 else ["profile", "train"]
            seed = ["--seed", str(number)]
            runs = {verb: measure(program, verb, f"{folder}/{verb}-{number}",
                                  [*cache, *seed, *(train if verb == "train" else profile)]) for verb in order}
            ratios.append(ratio(runs["profile"], runs["train"]))
            for verb, by_shape in runs.items():
                for shape, times in by_shape.items():
                    all_steps[verb][shape] += times
            print(f"round {number + 1}: {ratios[-1]:.3f}", flush=True)
    draws = sorted(statistics.median(random.Random(n).choices(ratios, k=len(ratios))) for n in range(2000))
    print(f"median {statistics.median(ratios):.3f}, 90 % of resamples within {draws[100]:.3f} and {draws[1900]:.3f}")
    pooled = ratio(all_steps["profile"], all_steps["train"], faster_quarter)
    print(f"the faster quarter of all steps, shape by shape: {pooled:.3f}")


if __name__ == "__main__":
    main()
