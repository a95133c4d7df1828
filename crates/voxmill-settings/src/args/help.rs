//! What stands below the flags in `--help` of each verb: what else there is to know, and examples. No line is longer than
//! 80 columns, or a terminal would wrap it a second time.

/// Below the short help, which has the common flags only.
pub(super) const SHORT: &str = "--help shows all flags, with examples.";

pub(super) const PREPARE: &str = "\
Examples:
  voxmill prepare                                  the built-in demo corpus
  voxmill prepare --train-data ~/LJSpeech-1.1      a dataset of your own
  voxmill prepare --train-data D --verify --gc     check contents, drop deleted
  voxmill prepare --train-data D --json            the summary as JSON

Exit: 0 ready, 1 failed, 130 interrupted (what is done is kept)";

pub(super) const TRAIN: &str = "\
Optimization levels (each gives defaults; a flag or key of its own beats them):
  basic            warm-up, then a constant rate; no averaging of weights
  enhanced         the default: AdamW 0.9/0.98, weight decay 1e-4, gradients
                   clipped to 1.0, warm-up, cosine down to 3 % of the peak,
                   averaged weights (EMA 0.999)
  experimental     enhanced with 1.5 times the rate, gradients clipped to 0.5
  plateau_breaker  enhanced, but the cosine runs four times, each from the peak

Peak rate and warm-up go with the size: 2e-3 after 50 steps (nano, tiny), 1e-3
after 500 (small), 5e-4 after 2000 (base, big). By default warm-up takes at most
a tenth of --max-steps. With --init-from the peak rate is a quarter of that.

Examples:
  voxmill train                                the built-in corpus, 9 minutes
  voxmill train --train-data ~/LJSpeech-1.1    a dataset of your own
  voxmill train --config my.yaml --max-minutes 60
  voxmill train --resume                       resume the newest run
  voxmill train --init-from runs/a --train-data D
                                               fine-tune another voice

Exit: 0 done, 1 failed, 130 interrupted (a checkpoint is saved; --resume
continues from it)";

pub(super) const PROFILE: &str = "\
It trains for real and discards the model. Besides the run itself it measures
the floor (batches that are on the device already), the interference (the same
while the workers work) and the same work without overlap. --replay shows the
result of its log again, on any machine.

Examples:
  voxmill profile                                 the built-in corpus
  voxmill profile --train-data D --batch-size 16  your dataset
  voxmill profile --data-gpu 0 --model-gpu 1      two GPUs
  voxmill profile --replay runs/a                 the log of an earlier run
  voxmill profile --replay runs/a --what-if 'num_workers=4, disk=2x'
                                                  what that would change
  voxmill profile --json > profile.json           as JSON (docs/json.md)

What --what-if knows (N times as fast: 2x; slower: 0.5x):
  num_workers=4, buffer_size=50, prefetch_buffer_size=8, ram_budget=2GB,
  no_overlap=true, unordered=true, model_start_delay=2, cache=warm, cores=8,
  disk=2x, decode=2x, resample=2x, mel=2x, featurize=2x, collate=2x,
  transfer=2x, model=2x. What a log cannot tell is refused, with what to measure
  instead.

Exit: 0 done, 1 failed";

pub(super) const PLAN: &str = "\
The file states what each stage takes, of a batch or of a clip, and how uneven
that is:
  steps: 100000
  slots: 2                                  # batches ahead on the device
  stages:                                   # in their order
    load:     { time: 20 ms, spread: 30 %, workers: 2, buffer: 50 }
    frames:   { time: 2 ms, each: clip, on: device }  # on the data device
    transfer: { time: 15 ms, with: two devices }  # only where there are two
  clips: 16                                 # to a batch
  train:      { time: 150 ms, spread: 5 % }
  exchange:   { time: 12 ms }               # a step, where two devices train

Each way to run it is simulated by the rules of the pipeline. Times are
log-normal with that spread (standard deviation over mean).

Examples:
  voxmill plan cluster.yaml         stage times that you state
  voxmill plan --replay runs/a --what-if 'model=4x, cores=8'
                                    a run's log, on a faster machine
  voxmill plan cluster.yaml --json  the result as JSON

Exit: 0 done, 1 failed";

pub(super) const ANALYZE: &str = "\
No model is built. What is measured: the text of every clip, the audio of a
sample of them, how fast files can be read, how many clips a second the pipeline
prepares with 1, 2, … workers, and how long a model would wait.

Examples:
  voxmill analyze                              the built-in corpus
  voxmill analyze --train-data D --step-ms 80  for a model with steps of 80 ms

Exit: 0 done, 1 failed";

pub(super) const VALIDATE: &str = "\
Three levels: an error is what `train` would refuse or could not do, a warning
is what costs time or memory, a note is worth knowing. Each says where it
stands, what it costs and what to write.

Examples:
  voxmill validate --config my.yaml        the file against this machine
  voxmill validate --config my.yaml --train-data D
                                           and against another dataset
  voxmill validate --config my.yaml --fix  write my.fixed.yaml
  voxmill validate --batch-size 64         flags alone, on the built-in corpus

Exit: 0 ready, 1 something must be fixed first";

pub(super) const DEVICES: &str = "\
Examples:
  voxmill devices                             what is there, what would be used
  voxmill devices --device cpu                what a run with --device cpu uses
  voxmill devices --data-gpu 1 --model-gpu 0  and how fast batches get across
  voxmill devices --data-device cpu --model-device cpu
                                              two lanes of the CPU
  voxmill devices --json                      for programs

Exit: 0; 1 when a device that was asked for is not there";

pub(super) const SELFTEST: &str = "\
Examples:
  voxmill selftest --device cuda:0  each line: pass, fail or not measurable
  voxmill selftest --device vulkan:0 --output vulkan.json
                                    the same as a file to send
  voxmill selftest --device cpu     the CPU compared with itself

Exit: 0 all passed; 1 something failed, or the device is not there";

pub(super) const SYNTHESIZE: &str = "\
Examples:
  voxmill synthesize \"Hello there.\"            speech.wav, by the newest run
  voxmill synthesize \"Hello.\" -c runs/a --play  and hear it
  voxmill synthesize --text-file story.txt -o story.wav
                                                a whole text as one file
  voxmill synthesize --text-file lines.txt -o wavs/
                                                a file for each line
  voxmill synthesize -c runs/a --reference-audio me.wav --text \"Hello.\"
  echo \"Hello there.\" | voxmill synthesize -o hello.wav
  voxmill synthesize \"Hello there.\" -o - | aplay
                                                wav on standard output

Exit: 0 spoken, 1 failed";

pub(super) const COMPARE: &str = "\
The first run is what the others are compared with. Step times are compared
shape by shape, losses at equal steps. A difference is reported only where it is
larger than the noise of the steps.

Examples:
  voxmill compare runs/a runs/b                 two runs, side by side
  voxmill compare runs/a runs/b --fail-above 5% exit 1 when b is over 5 % slower
  voxmill compare a/events.jsonl b.jsonl --json logs, for a program

Exit: 0 compared, 1 failed, or a run is worse than --fail-above";

pub(super) const REPORT: &str = "\
One file without anything from elsewhere: it opens from disk and can be sent.
All of it comes from the log, except the samples, which are taken from the run's
folder while they fit. `train` and `profile` write it when they end.

Examples:
  voxmill report runs/a                             runs/a/report.html
  voxmill report runs/a runs/b --output both.html   side by side, with intervals
  voxmill report runs/a --svg timeline --output timeline.svg

Exit: 0 written, 1 failed";

pub(super) const SCALE: &str = "\
Each size is a short training run in a process of its own: one that runs out of
memory is a row with its reason, not the end. Its files are temporary; the cache
of features is the dataset's own.

Examples:
  voxmill scale --train-data D                 sizes that suit the model
  voxmill scale --train-data D --batch-sizes 8,16,32,64
  voxmill scale --train-data D --workers 1,2,4
  voxmill scale --config my.yaml --prefetch 1,2,4 --json

Exit: 0 measured, 1 no size ran, 130 interrupted (with what was measured)";

pub(super) const TEXT: &str = "\
Examples:
  voxmill text \"Dr. Smith paid $3.50 on May 4, 1999.\"
  voxmill text --language fa \"۱۲ کتاب\"
  voxmill text \"Say {T AH0 M EY1 T OW0}.\"           phonemes written out
  echo \"Hello there.\" | voxmill text               a sentence a line";

pub(super) const RUNS: &str = "\
Running: a process writes its log now. Stopped: interrupted, or killed without
an end in its log; `voxmill train --resume RUN` continues it. The best error is
the lowest held-out mel error.

Examples:
  voxmill runs                       runs in ./runs, newest last
  voxmill runs --runs-dir /data/runs
  voxmill runs --json                for programs

Exit: 0, also where there are no runs";

pub(super) const LEDGER: &str = "\
`profile` and `plan --replay` keep each prediction that they print in
ledger.jsonl, next to the runs. When a later `train` or `profile` has made the
change, on the same data and machine and with nothing else changed, what it
measured is kept as well. A change that no setting makes, such as a faster disk,
is never scored; nor is one measured while other programs took the cores.

Examples:
  voxmill profile --what-if num_workers=4   predict
  voxmill profile --num-workers 4           do it
  voxmill ledger                            see how good the prediction was
  voxmill ledger --export ledger.json       a file for others

Exit: 0, also where nothing was predicted";

pub(super) const WATCH: &str = "\
It reads the run's log and changes nothing: leaving it does not stop the run.
Without a terminal it prints a line every 5 seconds until the run ends.

Examples:
  voxmill watch                      the run that trains now, else the newest
  voxmill watch runs/20260101-my     this run, also after its end

Exit: 0, also where the run failed; 1 when there is no such run";

pub(super) const COMPLETIONS: &str = "\
Examples:
  voxmill completions bash > ~/.local/share/bash-completion/completions/voxmill
  voxmill completions zsh > ~/.zfunc/_voxmill       a folder in $fpath
  voxmill completions fish > ~/.config/fish/completions/voxmill.fish";
