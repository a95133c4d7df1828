#!/usr/bin/env python3
"""How much of a step is lost to feeding.

Runs the real program in turns: `--replay` (all batches in memory, workers gone: the floor a), with a warm
cache (c), with no cache (the first epoch), and with --no-overlap, on the same batches. A step's wall time is
what it waited plus what it took, as the run's own log has it; the first steps of each run are left out.
With --lanes: two CPU lanes of one thread each, one making frames of waveforms and one training the nano model,
compared with the same work one after the other.

    python3 benches/feeding.py --voxmill target/release/voxmill --rounds 3 --steps 59
"""
import argparse, json, os, pathlib, shutil, statistics, subprocess, sys, tempfile, time

LEFT_OUT = 3


def run(program, folder, data, name, steps, more):
    run_dir = folder / f"{name}-{time.time_ns()}"
    command = [program, "train", "--run-dir", str(run_dir), "--max-steps", str(steps), "--no-evaluation",
               "--sample-every", "0", "--checkpoint-every", "1000000", "--no-dashboard", *data, *more]
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True)
    after = os.times()
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    steps = []
    for line in open(run_dir / "events.jsonl"):
        event = json.loads(line)
        if event["event"] == "step":
            steps.append(event)
    steps = steps[LEFT_OUT:]
    waited = sum(s["waited"] for s in steps) / len(steps) / 1e6
    service = sum(s["service"] for s in steps) / len(steps) / 1e6
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    shutil.rmtree(run_dir)
    return {"wall_ms": waited + service, "waited_ms": waited, "service_ms": service, "cpu_s": cpu}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voxmill", default="target/release/voxmill")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=59)
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--train-data")
    parser.add_argument("--lanes", action="store_true", help="two devices instead, both the CPU")
    parser.add_argument("--n-fft", default="256", help="with --lanes: balances the two [default: 256]")
    parser.add_argument("--only", help="cases whose names begin so, separated by semicolons")
    args = parser.parse_args()
    data = ["--model-size", args.size] + (["--train-data", args.train_data] if args.train_data else [])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="feeding-"))
    program = os.path.abspath(args.voxmill)
    cases = {
        "a, all batches in memory": ["--replay"],
        "c, warm cache": [],
        "first epoch, no cache": ["--no-cache"],
    }
    for size in (1, 50, 100):
        cases[f"overlap, no cache, buffer {size}"] = ["--no-cache", "--buffer-size", str(size)]
        cases[f"no overlap, no cache, buffer {size}"] = ["--no-cache", "--no-overlap", "--buffer-size", str(size)]
    if args.lanes:
        data = ["--model-size", "nano", "--data-device", "cpu", "--model-device", "cpu", "--prepare-on", "data",
                "--n-fft", args.n_fft, "--compute-threads", "1", "--no-cache", "--num-workers", "1",
                "--buffer-size", "2", "--prefetch-buffer-size", "3", "--no-adapt"]
        cases = {"a, all batches in memory": ["--replay"], "two lanes": [], "one after another": ["--no-overlap"]}
    if args.only:
        wanted = tuple(args.only.split(";"))
        cases = {name: more for name, more in cases.items() if name.startswith(wanted)}
    # Fills the cache.
    run(program, folder, data, "fill", args.steps, [])
    results = {name: [] for name in cases}
    for _ in range(args.rounds):
        for name, more in cases.items():
            results[name].append(run(program, folder, data, "case", args.steps, more))
    floor = statistics.median(r["wall_ms"] for r in results["a, all batches in memory"])
    floors = [r["wall_ms"] for r in results["a, all batches in memory"]]
    print("| case | ms a step, each run | median | / a | best / best a | waited ms |\n|---|---|---|---|---|---|")
    for name, runs in results.items():
        walls = [r["wall_ms"] for r in runs]
        median = statistics.median(walls)
        waited = statistics.median(r["waited_ms"] for r in runs)
        print(f"| {name} | {', '.join(f'{w:.1f}' for w in walls)} | {median:.1f} | {median / floor:.3f} | "
              f"{min(walls) / min(floors):.3f} | {waited:.2f} |")
    print(json.dumps(results))
    shutil.rmtree(folder)


main()
