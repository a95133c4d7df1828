//! Threads, memory and buffers between the dataset and the model.

use super::{Rule, Verbs, key, number, settings, switch, used, whole};
use crate::config::value::Kind;

settings! { WORK: Data, "Work", Verbs::DATASET;
    NUM_WORKERS = key("num_workers", whole(1, 256), "Threads that read clips and compute features")
        .auto("one for each core; `train` shares the cores with the model").example("8").common();
    RAM_BUDGET = key("ram_budget", Kind::Bytes, "Limit on the host memory of clips and batches")
        .auto("a quarter of the memory").example("4GB");
    UNORDERED = switch("unordered", "Pass items on as they are done, not in order");
    NO_OVERLAP = switch("no_overlap", "Run all stages one after another on one thread: the baseline to compare with");
    AUTO_TUNE_PERFORMANCE = key("auto_tune_performance", Kind::Switch, "Change workers and buffers while it runs; --no-adapt turns it off")
        .is("true").inverted_flag("no-adapt", "Leave workers and buffers as they are at the start");
}

settings! { FEEDING: Data, "Feeding the model", Verbs::BATCHES;
    COMPUTE_THREADS = key("compute_threads", whole(1, 256), "Threads that the model computes with")
        .auto("the cores that the workers leave").example("6")
        .also(&[used(Verbs::SYNTHESIZE, "Output", "Threads to compute with").rule(Rule::Auto("one for each core"))]);
    BUFFER_SIZE = key("buffer_size", whole(1, 100_000), "Collated batches that may wait in memory for the device, within --ram-budget; without --no-adapt this is where it begins")
        .is("50");
    PREFETCH_BUFFER_SIZE = key("prefetch_buffer_size", whole(1, 64), "Batches ahead on the device")
        .auto("64 / batch size, from 2 (two devices: 3) to 8").example("4");
    MODEL_START_DELAY = key("model_start_delay", number(0.0, 3_600.0), "Longest wait before step 1 for --prefetch-buffer-size batches on the device; 0 starts with the first one")
        .value("SECONDS").is("2.0");
    ENABLE_STATIC_SHAPES = key("enable_static_shapes", Kind::Switch, "Pad batches to at most --buckets shapes; always on")
        .is("true").off_by("disable-static-shapes", "Refused: more --buckets pad less");
    ENABLE_CACHING = key("enable_caching", Kind::Switch, "Keep features in the cache and take them from it; --no-cache turns it off")
        .is("true").inverted_flag("no-cache", "Read and write no cache: features stay in memory as far as they fit, else they are computed again");
}
