//! The model, how long and how it is trained, checkpoints, evaluation, and where a run is written.

use super::{Rule, Verbs, key, number, settings, switch, used, whole};
use crate::config::value::Kind;
use crate::{ModelSize, for_each_size, steps_between_checkpoints, steps_between_samples};

/// `normal` is another word for `base`; `nano` is for tests.
const MODEL_SIZES: &[&str] = &["nano", "tiny", "small", "base", "normal", "big"];
const OPTIMIZATION_LEVELS: &[&str] = &["basic", "enhanced", "experimental", "plateau_breaker"];

settings! { MODEL: Model, "Model", Verbs::MODEL;
    SIZE = key("size", Kind::OneOf(MODEL_SIZES), "tiny, small, base (or normal), big; nano is for tests")
        .value("SIZE").flag_is("model-size").is("tiny")
        .also(&[used(Verbs::ANALYZE, "Analyze", "The size of the model in the run to search for").rule(Rule::Is("tiny"))]).common();
    ENABLE_GRADIENT_CHECKPOINTING = switch("enable_gradient_checkpointing", "Gradient checkpointing: compute activations twice to save memory");
}

settings! { LENGTH: Training, "Length (what is reached first ends the run)", Verbs::TRAINING;
    EPOCHS = key("epochs", whole(1, 1_000_000), "Stop after this many epochs")
        .absent("no limit").example("100").common();
    MAX_STEPS = key("max_steps", whole(1, 1_000_000_000), "Stop after this many steps")
        .rule(Rule::AutoOf(|| format!("where no length is given, {}", for_each_size(ModelSize::usual_steps)))).example("20000").common();
    MAX_MINUTES = key("max_minutes", number(0.01, 1_000_000.0), "Stop after this many minutes")
        .value("MINUTES").auto("where no length is given, 9 on the built-in corpus").example("60").common();
}

settings! { OPTIMIZATION: Training, "Optimization", Verbs::TRAINING;
    OPTIMIZATION_LEVEL = key("optimization_level", Kind::OneOf(OPTIMIZATION_LEVELS), "basic, enhanced, experimental or plateau_breaker: see below")
        .in_file("A preset over the keys below, each of which beats it: basic (constant rate, no averaging), enhanced (warm-up, cosine, averaged weights), experimental (1.5 times the rate, gradients clipped to 0.5), plateau_breaker (the cosine four times, each from the peak again)")
        .value("LEVEL").is("enhanced");
    LEARNING_RATE = key("learning_rate", number(1e-9, 1.0), "Peak learning rate")
        .value("RATE").flag_is("lr").or_flag("learning-rate")
        .rule(Rule::AutoOf(|| format!("{}; experimental: 1.5 times that; with init_from a quarter", for_each_size(ModelSize::peak_rate)))).example("2e-3");
    WARMUP_STEPS = key("warmup_steps", whole(0, 10_000_000), "Warm-up steps of the learning rate")
        .rule(Rule::AutoOf(|| for_each_size(ModelSize::warmup_steps))).example("50");
    WEIGHT_DECAY = key("weight_decay", number(0.0, 1.0), "Weight decay of AdamW")
        .auto("1e-4").example("1e-4");
    GRADIENT_CLIP_NORM = key("gradient_clip_norm", number(1e-6, 1e6), "Clip gradients to this global norm")
        .value("NORM").auto("1.0; experimental: 0.5").example("1.0");
    GRADIENT_ACCUMULATION_STEPS = key("gradient_accumulation_steps", whole(1, 4_096), "Gradient accumulation: batches to one step")
        .flag_is("grad-accum").or_flag("gradient-accumulation-steps").is("1")
        .also(&[used(Verbs::PROFILE, "Model", "Gradient accumulation: batches to one step").rule(Rule::Is("1"))]);
    EMA_DECAY = key("ema_decay", number(0.0, 0.999_999), "EMA decay of the averaged weights; 0 turns averaging off")
        .auto("0.999; basic: 0").example("0.999");
    MAX_BAD_STEPS = key("max_bad_steps", whole(0, 1_000_000), "Stop when more steps than this were skipped because a number was not finite")
        .is("20");
    SHUFFLE_TEXTS = switch("shuffle_texts", "Control experiment: shuffle the texts among the clips, so that there is nothing to learn")
        .of_a_call().hidden();
    REPLAY = switch("replay", "For measuring: take all batches of the run into memory and stop the workers before the first step")
        .of_a_call().hidden();
}

settings! { CHECKPOINTS: Training, "Checkpoints", Verbs::TRAINING;
    INIT_FROM = key("init_from", Kind::Path, "Begin with the weights of this run or checkpoint; new speakers and symbols are added")
        .value("CHECKPOINT").only(Verbs::TRAIN).absent("none").example("runs/another-voice").common();
    RESUME = key("resume", Kind::Path, "Resume this run or checkpoint, or the newest run")
        .value("RUN").only(Verbs::TRAIN).bare().of_a_call().common();
    RESET_TRAINING = switch("reset_training", "Start at step 0 although --checkpoint-dir or --run-dir holds checkpoints: they are replaced")
        .only(Verbs::TRAIN).of_a_call();
    CHECKPOINT_DIR = key("checkpoint_dir", Kind::Path, "Where checkpoints go")
        .absent("checkpoints in the run's folder").example("/big-disk/checkpoints");
    CHECKPOINT_EVERY = key("checkpoint_every", whole(1, 1_000_000_000), "Save a checkpoint every N steps")
        .value("STEPS").rule(Rule::AutoOf(|| for_each_size(steps_between_checkpoints))).example("250");
    KEEP = key("keep", whole(1, 10_000), "How many of the last checkpoints to keep, in addition to the best")
        .is("3");
    // With pauses from one second to five minutes, twenty failures are about an hour without a disk.
    MAX_FAILED_CHECKPOINTS = key("max_failed_checkpoints", whole(1, 1_000_000), "Stop when writing a checkpoint failed this often in a row; it is tried again after 1 s, 2 s, 4 s and so on up to 5 min")
        .is("20");
}

settings! { EVALUATION: Training, "Evaluation", Verbs::TRAINING;
    ENABLE_EVALUATION = key("enable_evaluation", Kind::Switch, "Measure the loss on the held-out clips: on unless turned off")
        .is("true").off_by("no-evaluation", "Never measure the loss on the held-out clips");
    EVALUATION_INTERVAL = key("evaluation_interval", whole(1, 1_000_000_000), "Evaluate on the held-out clips every N steps")
        .value("STEPS").rule(Rule::AutoOf(|| for_each_size(steps_between_checkpoints))).example("250");
    EARLY_STOPPING_PATIENCE = key("early_stopping_patience", whole(1, 1_000_000), "Early stopping: stop after this many evaluations without improvement")
        .absent("off").example("10");
    SAMPLE_EVERY = key("sample_every", whole(0, 1_000_000_000), "Synthesize samples every N steps; 0 for none")
        .value("STEPS").rule(Rule::AutoOf(|| for_each_size(steps_between_samples))).example("500");
    SAMPLE_TEXT = key("sample_text", Kind::Path, "A file with sentences to speak as samples, one a line, at most 20")
        .value("FILE").absent("three held-out sentences").example("sentences.txt");
}

settings! { RUN: Training, "Run and output", Verbs::TRAIN;
    RUN_DIR = key("run_dir", Kind::Path, "The folder of this run")
        .absent("a new one in runs_dir").of_a_call().common();
    RUNS_DIR = key("runs_dir", Kind::Path, "Where runs are kept, each in a folder <time>-<name>")
        .is("runs")
        .also(&[
            used(Verbs::PROFILE, "Profile", "Where the log goes, as events.jsonl in a folder <time>-profile").rule(Rule::Is("runs")),
            used(Verbs::ANALYZE, "Analyze", "Where to search for runs").rule(Rule::Is("runs")),
            used(Verbs::VALIDATE, "Checkpoints", "Where runs are kept; the newest like this one says how busy the device was").rule(Rule::Is("runs")),
            used(Verbs::SYNTHESIZE, "Voice", "Where runs are kept").rule(Rule::Is("runs")),
        ]);
    NAME = key("name", Kind::Name, "The name of this run")
        .auto("the dataset's name and the size").example("my-voice").common();
    TENSORBOARD_LOG_DIR = key("tensorboard_log_dir", Kind::Path, "Where TensorBoard's files go")
        .absent("the run's folder").example("/logs");
    LOG_EVERY = key("log_every", whole(1, 1_000_000), "Log every N steps")
        .value("STEPS").is("10")
        .also(&[used(Verbs::PROFILE, "Model", "Log every N steps").rule(Rule::Is("10"))]);
    DASHBOARD = key("dashboard", Kind::Switch, "Show curves and buffers while it runs")
        .absent("where standard error is a terminal").of_a_call()
        .off_by("no-dashboard", "Plain lines instead of the dashboard");
}
