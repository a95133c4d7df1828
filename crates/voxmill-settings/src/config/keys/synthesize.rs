//! What `synthesize` alone takes: whose voice, and where the speech goes.

use super::{Verbs, key, number, settings, whole};
use crate::config::value::Kind;

settings! { VOICE: Call, "Voice", Verbs::SYNTHESIZE;
    CHECKPOINT = key("checkpoint", Kind::Path, "A checkpoint or a run's folder, of which the best is taken")
        .value("FILE_OR_RUN").short('c').absent("the newest run's best").common();
    REFERENCE_AUDIO = key("reference_audio", Kind::Path, "Speak as in this recording")
        .value("FILE").absent("none").common();
    SPEAKER = key("speaker", Kind::Name, "Speak as this speaker of the training data")
        .absent("the one with the most clips in the text's language").common();
    SPEAKING_RATE = key("speaking_rate", number(0.25, 4.0), "How fast to speak: 2 is twice as fast")
        .is("1.0");
}

settings! { SPEECH: Call, "Output", Verbs::SYNTHESIZE;
    OUTPUT = key("output", Kind::Path, "A wav file, a folder (one that exists, or ends in /) for a file for each line, or - for standard output")
        .value("FILE_OR_DIR").short('o').is("speech.wav").common();
    GRIFFIN_LIM_ITERATIONS = key("griffin_lim_iterations", whole(1, 1_000), "Griffin-Lim iterations")
        .is("32");
}
