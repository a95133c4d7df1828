//! The dataset, its text and audio, batches and the cache.

use voxmill_audio::AudioSettings;
use voxmill_data::batch_plan::BatchSettings;

use super::{Rule, Verbs, key, number, settings, switch, used, whole};
use crate::config::value::Kind;

settings! { DATASET: Data, "Dataset", Verbs::DATASET;
    TRAIN_DATA = key("train_data", Kind::Path, "The folder with metadata.csv and wavs/")
        .absent("the built-in demo corpus").example("/data/LJSpeech-1.1").common();
    VAL_DATA = key("val_data", Kind::Path, "A second folder whose clips are all for validation")
        .absent("none").example("/data/my-validation-set");
    VAL_FRACTION = key("val_fraction", Kind::Share, "Share of clips held out for validation where the dataset has no split of its own")
        .is("5%");
    LANGUAGE = key("language", Kind::Language, "Language of clips whose manifest does not say")
        .absent("detected for each clip").example("en")
        .also(&[used(Verbs::SYNTHESIZE.and(Verbs::TEXT), "Text", "The language, such as en or fa").rule(Rule::Absent("detected"))]).common();
    MAX_BAD = key("max_bad", Kind::Share, "Stop when more than this share of the manifest's rows is bad")
        .is("5%");
    MAX_TEXT_LENGTH = key("max_text_length", whole(1, 1_000_000), "Leave out clips whose text has more characters than this")
        .is("400");
    MAX_MEL_FRAMES = key("max_mel_frames", whole(1, 1_000_000), "Leave out clips with more frames than this")
        .is("1500").note(", 17 s; at another rate or hop as many as 17 s have; never above 10 minutes");
    DROP_SUSPICIOUS = switch("drop_suspicious", "Leave out the clips that `prepare` lists in suspicious.csv");
    MIN_SNR = key("min_snr", number(0.0, 120.0), "Leave out clips whose level ranges over less than this from quiet to loud, as `prepare` measured it")
        .value("DB").absent("off").example("20");
    FOLLOW_LINKS = switch("follow_links", "Follow links in wavs/ that lead outside the dataset's folder");
}

settings! { TEXT: Data, "Text", Verbs::DATASET.and(Verbs::SYNTHESIZE).and(Verbs::TEXT);
    LEXICON = key("lexicon", Kind::Path, "Pronunciations of your own: a file of lines `word<TAB>PH ON EM ES`")
        .value("FILE").absent("none").example("my-words.tsv");
    ESPEAK = switch("espeak", "Ask the installed espeak-ng program how languages other than English are spoken");
}

settings! { AUDIO: Data, "Audio", Verbs::DATASET;
    SAMPLE_RATE = key("sample_rate", whole(8_000, 96_000), "Sample rate that clips are resampled to")
        .value("HZ").of(|| AudioSettings::default().sample_rate.to_string()).common();
    N_FFT = key("n_fft", whole(64, 16_384), "FFT size: samples of an analysis window")
        .of(|| AudioSettings::default().n_fft.to_string());
    HOP_LENGTH = key("hop_length", whole(16, 8_192), "Hop: samples from one frame to the next")
        .of(|| AudioSettings::default().hop_length.to_string());
    N_MELS = key("n_mels", whole(8, 512), "Mel channels")
        .of(|| AudioSettings::default().n_mels.to_string());
    F_MIN = key("f_min", number(0.0, 48_000.0), "Lower edge of the mel filters")
        .value("HZ").of(|| AudioSettings::default().f_min.to_string());
    F_MAX = key("f_max", number(1.0, 48_000.0), "Upper edge of the mel filters")
        .value("HZ").of(|| AudioSettings::default().f_max.to_string());
    TRIM_DB = key("trim_db", number(10.0, 120.0), "Cut silence at both ends that is this many dB below the clip's loudest part")
        .value("DB").absent("off").example("40");
    LOUDNESS_LUFS = key("loudness_lufs", number(-60.0, -5.0), "Normalise every clip to this loudness, e.g. -23")
        .value("LUFS").absent("off").example("-23");
}

settings! { BATCHES: Data, "Batches", Verbs::DATASET;
    BATCH_SIZE = key("batch_size", whole(1, 4_096), "Clips in a batch at the mean length; longer batches hold fewer, shorter ones more")
        .of(|| BatchSettings::default().batch_size.to_string()).note("; 8 for the built-in corpus").example("16").common();
    BUCKETS = key("buckets", whole(1, 64), "Shapes that batches are padded to, at the most")
        .of(|| BatchSettings::default().bucket_count.to_string());
    PAD_TO_FIXED_LENGTH = switch("pad_to_fixed_length", "Pad every batch to the longest clip: one shape, much waste");
    SEED = key("seed", whole(0, u64::MAX), "Random seed of batches and, in `train`, of the first weights")
        .of(|| BatchSettings::default().seed.to_string());
}

settings! { CACHE: Data, "Cache", Verbs::DATASET;
    CACHE_DIR = key("cache_dir", Kind::Path, "Where the cache is kept")
        .absent("voxmill-cache in the dataset's folder").example("/fast-disk/cache").common();
    CACHE_BUDGET = key("cache_budget", Kind::Bytes, "Never let the cache grow beyond this size, both folders together")
        .absent("no limit").example("20GB");
}
