"""Does `voxmill profile` find what was injected? Causes by severities, as a confusion matrix.

    python3 benches/diagnoses.py --voxmill target/release/voxmill --corpus DEMO --rounds 1

Each cause is injected into the real pipeline with the real model (the hidden flag --inject slows a part down); a healthy
run has nothing injected. What counts is the first finding. `oversubscribed` is reported whenever other programs run: use a
quiet machine.
"""

import argparse
import collections
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

SEVERITIES = ("mild", "middle", "strong")

# The state of the cache, and the flags of each severity. `1.6x` is a time: that many steps of this machine, as a run with
# nothing injected takes them; `1.6t` likewise, of a model with one compute thread. A batch has 8 clips.
CAUSES = {
    "slow_disk": ("cold", "--inject read=0.14x", "--inject read=0.22x", "--inject read=0.7x"),
    "few_workers": (
        "off",
        "--num-workers 1 --compute-threads 1 --no-adapt --inject mel=0.12t",
        "--num-workers 1 --compute-threads 1 --no-adapt --inject mel=0.14t",
        "--num-workers 1 --compute-threads 1 --no-adapt --inject mel=0.16t",
    ),
    "small_buffer": (
        "warm",
        "--buffer-size 1 --prefetch-buffer-size 1 --inject uneven=8x",
        "--buffer-size 1 --prefetch-buffer-size 1 --inject uneven=12x",
        "--buffer-size 1 --prefetch-buffer-size 1 --inject uneven=18x",
    ),
    "slow_resampling": ("cold", "--inject resample=0.14x", "--inject resample=0.22x", "--inject resample=0.7x"),
    "huge_clip": ("cold", "--inject huge=8x", "--inject huge=16x", "--inject huge=32x"),
    "slow_transfer": ("warm", "--inject transfer=1.25x", "--inject transfer=1.6x", "--inject transfer=3x"),
    "slow_collating": ("warm", "--inject collate=1.8x", "--inject collate=2.5x", "--inject collate=5x"),
    "memory_budget": (
        "off",
        "--ram-budget 10MB --inject read=0.16x --num-workers 4",
        "--ram-budget 8MB --inject read=0.22x --num-workers 4",
        "--ram-budget 8MB --inject read=0.44x --num-workers 4",
    ),
    "model_too_small": (
        "off",
        "--model-size nano --batch-size 4 --inject mel=0.08x",
        "--model-size nano --batch-size 4 --inject mel=0.14x",
        "--model-size nano --batch-size 4 --inject mel=0.33x",
    ),
    "oversubscribed": ("warm", 1, 2, 4),
    "padding": ("warm", "--pad-to-fixed-length", "--pad-to-fixed-length", "--pad-to-fixed-length --batch-size 16"),
    "cold_cache": ("cold", "--inject mel=0.14x", "--inject mel=0.22x", "--inject mel=0.7x"),
}
UNITS = {"x": "", "t": "--compute-threads 1"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voxmill", type=pathlib.Path, required=True)
    parser.add_argument("--corpus", type=pathlib.Path, required=True, help="the unpacked demo corpus")
    parser.add_argument("--rounds", type=int, default=1, help="each with another seed [default: 1]")
    parser.add_argument("--seed", type=int, default=1000, help="of the first round [default: 1000]")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--severities", default="middle", help="comma-separated [default: middle]")
    parser.add_argument("--healthy", type=int, default=20, help="runs with nothing injected [default: 20]")
    parser.add_argument("--only", default="", help="causes, comma-separated")
    parser.add_argument("--output", type=pathlib.Path, default="diagnoses.json")
    return parser.parse_args()


class Place:
    """A copy of the dataset's layout with a cache of its own: links to the clips, nothing of the original is touched."""

    def __init__(self, corpus, voxmill, folder):
        self.voxmill = voxmill
        self.runs = folder / "runs"
        self.cold, self.warm = folder / "cold-cache", folder / "warm-cache"
        self.data = corpus
        subprocess.run(
            [voxmill, "prepare", "--train-data", corpus, "--cache-dir", self.warm],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        self.units = {unit: self.step_ms(flags) for unit, flags in UNITS.items()}
        units = ", ".join(f"1{unit} = {ms:.0f} ms" for unit, ms in self.units.items())
        print(f"a step with nothing injected: {units}", flush=True)

    def step_ms(self, flags):
        """The machine's speed changes, so what is injected is given in its own steps."""
        report, error = self.profile("warm", flags.split(), 20, 1)
        if error:
            raise SystemExit("\n".join(error))
        return report["feeding"]["floor_ms"]

    def in_ms(self, word):
        in_steps = re.fullmatch(r"(.+=)([0-9.]+)([a-z])", word)
        if not in_steps:
            return word
        part, number, unit = in_steps.groups()
        return f"{part}{float(number) * self.units[unit]:.1f}ms"

    def first_finding(self, state, flags, steps, seed):
        rivals, words = [], []
        if isinstance(flags, int):
            rivals = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(flags)]
        else:
            words = [self.in_ms(word) for word in flags.split()]
        try:
            report, error = self.profile(state, words, steps, seed)
        finally:
            for rival in rivals:
                rival.kill()
                rival.wait()
        if error:
            return "failed", error
        finding = report["findings"][0]
        return finding["cause"], finding["what"]

    def profile(self, state, words, steps, seed):
        shutil.rmtree(self.cold, ignore_errors=True)
        cache = ["--no-cache"] if state == "off" else ["--cache-dir", self.warm if state == "warm" else self.cold]
        command = [
            self.voxmill, "profile", "--train-data", self.data, "--batch-size", "8", "--num-steps", str(steps),
            "--warmup", "3", "--runs-dir", self.runs, "--seed", str(seed), "--json", *cache,
        ]
        if "--batch-size" in words:
            del command[command.index("--batch-size"):command.index("--batch-size") + 2]
        command += words
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return None, done.stderr.strip().splitlines()[-3:]
        return json.loads(done.stdout), None


def main():
    args = arguments()
    only = [name for name in args.only.split(",") if name]
    severities = args.severities.split(",")
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        place = Place(args.corpus.resolve(), args.voxmill.resolve(), pathlib.Path(scratch))
        for round_number in range(args.rounds):
            seed = args.seed + round_number
            for cause, (state, *by_severity) in CAUSES.items():
                if only and cause not in only:
                    continue
                for severity, flags in zip(SEVERITIES, by_severity):
                    if severity not in severities:
                        continue
                    found, what = place.first_finding(state, flags, args.steps, seed)
                    results.append({"injected": cause, "severity": severity, "seed": seed, "found": found, "what": what})
                    print(f"{cause:16} {severity:7} -> {found:16} {what}", flush=True)
        for number in range(args.healthy):
            found, what = place.first_finding("warm", "", args.steps, args.seed + 1000 + number)
            results.append({"injected": "nothing", "severity": "", "seed": args.seed + 1000 + number, "found": found, "what": what})
            print(f"nothing                  -> {found:16} {what}", flush=True)
    args.output.write_text(json.dumps(results, indent=1) + "\n")
    print_matrix(results)


def print_matrix(results):
    rows = collections.defaultdict(collections.Counter)
    for result in results:
        rows[result["injected"], result["severity"]][result["found"]] += 1
    print("\n| injected | severity | found |\n|---|---|---|")
    for (injected, severity), found in rows.items():
        counts = ", ".join(f"{name} {count}" for name, count in found.most_common())
        print(f"| {injected} | {severity} | {counts} |")


if __name__ == "__main__":
    main()
