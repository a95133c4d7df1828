"""Are the words understood? Word error rates of a voice compared with those of the recordings it learned from.

    python eval/wer.py --voxmill target/release/voxmill --checkpoint RUN/checkpoints/best --corpus DEMO

Without --checkpoint only the recordings are heard.
"""

import argparse
import json
import pathlib
import tempfile

from corpus import clips, samples, synthesize
from recognisers import all_recognisers
from words import error_rates


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=pathlib.Path, required=True, help="the unpacked demo corpus")
    parser.add_argument("--voxmill", default="voxmill", help="the program [default: the one on the path]")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="what to speak with")
    parser.add_argument("--count", type=int, default=20, help="held-out sentences [default: 20]")
    parser.add_argument("--wavs", type=pathlib.Path, help="keep the synthesised files here")
    parser.add_argument("--output", type=pathlib.Path, default="wer.json", help="[default: wer.json]")
    return parser.parse_args()


def main():
    args = arguments()
    sets = {
        "held-out": clips(args.corpus, "metadata_eval.csv")[: args.count],
        "unseen words": clips(args.corpus, "unseen.csv"),
    }
    recognisers = all_recognisers()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.wavs or pathlib.Path(scratch)
        sources = {"recordings": {name: [clip.path for clip in rows] for name, rows in sets.items()}}
        if args.checkpoint:
            sources["synthesised"] = {
                name: synthesize(
                    args.voxmill,
                    args.checkpoint,
                    [clip.text for clip in rows],
                    folder / name.replace(" ", "-"),
                    "--speaker",
                    rows[0].speaker,
                )
                for name, rows in sets.items()
            }
        results = [
            hear(recogniser, source, name, sets[name], files)
            for recogniser in recognisers
            for name in sets
            for source, by_set in sources.items()
            for files in [by_set[name]]
        ]
    print_table(results)
    args.output.write_text(
        json.dumps({"checkpoint": args.checkpoint and str(args.checkpoint), "results": results}, indent=1) + "\n"
    )


def hear(recogniser, source, name, rows, files):
    heard = [recogniser.hear(samples(file)) for file in files]
    said = [clip.text for clip in rows]
    return {
        "recogniser": recogniser.name,
        "set": name,
        "source": source,
        **error_rates(list(zip(said, heard))),
        "hypotheses": [{"id": clip.id, "said": clip.text, "heard": h} for clip, h in zip(rows, heard)],
    }


def print_table(results):
    print("| recogniser | sentences | of | WER % | CER % | WER above the recordings' |")
    print("|---|---|---|---|---|---|")
    own = {}
    for r in results:
        key = r["recogniser"], r["set"]
        own.setdefault(key, r["wer"])
        above = "" if r["source"] == "recordings" else f"{r['wer'] - own[key]:+.1f}"
        what = f"{r['sentences']} {r['set']} ({r['words']} words)"
        print(f"| {r['recogniser']} | {what} | {r['source']} | {r['wer']:.1f} | {r['cer']:.1f} | {above} |")


if __name__ == "__main__":
    main()
