#!/usr/bin/env python3
"""Do the 90 % intervals of `voxmill profile` contain what a repeat gives?

Repeats one configuration and asks of each interval whether it has the geometric mean of the other repeats' values: about nine in
ten should. That mean is uncertain itself, so even perfect intervals cover a little less. Prints each repeat as it ends, with what
other programs took of the cores; a machine that is not quiet is part of what is tested.

    python3 benches/profile_coverage.py --voxmill target/release/voxmill --repeats 10 -- --model-size nano --num-steps 40
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time

RATIOS = ["interference", "run_over_floor", "no_overlap_over_run"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voxmill", default="target/release/voxmill")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no repeat after so long")
    parser.add_argument("flags", nargs="*", help="of `voxmill profile`, behind `--`")
    args = parser.parse_args()
    program = os.path.abspath(args.voxmill)
    found = {name: [] for name in RATIOS}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        cache = ["--cache-dir", f"{folder}/cache"]
        subprocess.run([program, "prepare", *cache], check=True, capture_output=True)
        for number in range(args.repeats):
            if time.monotonic() - began > args.seconds:
                print(f"stopped after {number} of {args.repeats} repeats: time is up")
                break
            command = [program, "profile", *cache, "--runs-dir", f"{folder}/runs", "--json", *args.flags]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(done.stderr)
            profile = json.loads(done.stdout)
            feeding, others = profile["feeding"], profile["other_programs"]
            line = []
            for name in RATIOS:
                ratio = feeding[name]
                found[name].append(ratio)
                line.append(f"{name} {ratio['value']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})")
            graded = sum(score["reached"] is not None for score in profile["scorecard"])
            line.append(f"rounds {feeding['rounds']}, most {feeding['most_overlap_can_gain']:.3f}")
            if others:
                line.append(f"others {others['cores_taken']:.2f} of {others['cores']:.1f} cores")
            print(f"{number + 1}: {'; '.join(line)}; graded {graded}", flush=True)
    for name, ratios in found.items():
        if len(ratios) < 3:
            sys.exit("fewer than 3 repeats: nothing can be said")
        logs = [math.log(ratio["value"]) for ratio in ratios]
        covered = 0
        for ratio, log in zip(ratios, logs):
            others = math.exp((sum(logs) - log) / (len(logs) - 1))
            covered += ratio["low"] <= others <= ratio["high"]
        print(f"{name}: {covered} of {len(ratios)} intervals have the mean of the others")


if __name__ == "__main__":
    main()
