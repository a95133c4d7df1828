//! Computes the two halves of a clip's features, or says why the clip is bad.

use voxmill_audio::{AudioError, Effort};
use voxmill_text::symbols;

use super::clip::AudioFeaturizer;
use super::{Recipe, with_causes};
use crate::cache::{Cache, Fingerprint};
use crate::features::{AudioFeatures, TextFeatures};
use crate::manifest::{Clip, QuarantineEntry, Reason};

/// The text half of a clip's features.
pub(crate) fn make_text(clip: &Clip, recipe: &Recipe) -> Result<TextFeatures, QuarantineEntry> {
    let text = recipe
        .front_end
        .features(&clip.text, recipe.language_of(clip))
        .map_err(|error| clip.quarantine(Reason::named("text not read"), with_causes(&error)))?;
    if !text.tokens.iter().any(|&id| symbols::is_spoken(id)) {
        return Err(clip.quarantine(
            Reason::named("nothing to say"),
            "nothing in the text can be read aloud",
        ));
    }
    Ok(text)
}

/// The audio half, and what it was made from.
#[derive(Debug)]
pub(crate) struct MadeAudio {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) features: AudioFeatures,
    /// Taken over from the cache.
    pub(crate) kept: bool,
    pub(crate) effort: Effort,
}

/// `still_good` is the cache if the clip's frames in it can be taken over.
pub(crate) fn make_audio(
    clip: &Clip,
    mut fingerprint: Fingerprint,
    still_good: Option<&Cache>,
    featurizer: &mut dyn AudioFeaturizer,
) -> Result<MadeAudio, QuarantineEntry> {
    if let Some(before) = still_good
        // A shard that proves damaged only now is no loss: the file is there to be read again.
        && let Ok(Some(cached)) = before.get(&clip.id)
    {
        // Equal size and time, or it would not be fresh: what is known of its content still holds.
        let known = before
            .entry(&clip.id)
            .and_then(|entry| entry.fingerprint.audio.content);
        fingerprint.audio.content = fingerprint.audio.content.or(known);
        return Ok(MadeAudio {
            fingerprint,
            features: cached.to_audio(),
            kept: true,
            effort: Effort::default(),
        });
    }
    let path = clip.audio_path();
    // Before decoding: a file that changes in between then differs from its stamp and is rebuilt next time.
    fingerprint.audio = featurizer
        .stamp(&path)
        .map_err(|error| clip.quarantine(Reason::UNREADABLE_AUDIO, error.to_string()))?;
    let features = featurizer
        .featurize(&path)
        .map_err(|error| bad_audio(clip, &error))?;
    Ok(MadeAudio {
        fingerprint,
        features,
        kept: false,
        effort: featurizer.effort(),
    })
}

/// A clip that its file gives nothing of.
pub(crate) fn bad_audio(clip: &Clip, error: &AudioError) -> QuarantineEntry {
    clip.quarantine(Reason::named(error.kind()), with_causes(error))
}
