#!/usr/bin/env python3
"""Do two devices in tandem hide what they should?

Two CPU lanes with the program's own slots and threads, where each stage is held up for as long as the design's example has it: 20 ms of
reading, 10 ms of collating (computing), 15 ms of transfer, 150 ms of training for a batch, the others asleep; decoding and the nano model's own computing come on top. A step of the run
is held against a step whose batch is on the device already (c/a), within one process.

    python3 benches/sleeping.py --voxmill target/release/voxmill --rounds 5
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voxmill", default="target/release/voxmill")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--clips", type=int, default=4, help="in a batch; more of them, more computing [default: 4]")
    args = parser.parse_args()
    print("| a, ms | c, ms | c/a (90 % of resamples) | waited, ms a step | one after another / c |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.rounds):
            done = subprocess.run(
                [os.path.abspath(args.voxmill), "profile", "--model-size", "nano", "--data-device", "cpu", "--model-device", "cpu",
                 "--compute-threads", "1", "--num-workers", "1", "--prefetch-buffer-size", "3", "--no-adapt", "--num-steps", str(args.steps),
                 "--prepare-on", "host", "--seed", str(seed), "--runs-dir", f"{folder}/runs", "--json", "--no-cache",
                 "--batch-size", str(args.clips),
                 "--inject", f"read={20 / args.clips}ms", "--inject", "collate=10ms", "--inject", "transfer=15ms", "--inject", "step=150ms"],
                capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(done.stderr)
            report = json.loads(done.stdout)
            feeding = report["feeding"]
            ratio, alone = feeding["run_over_floor"], feeding["no_overlap_over_run"]
            print(f"| {feeding['floor_ms']:.1f} | {report['step_ms']['mean']:.1f} | {ratio['value']:.4f} ({ratio['low']:.4f} to {ratio['high']:.4f}) "
                  f"| {feeding['stall_ms']:.3f} | {alone['value']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
