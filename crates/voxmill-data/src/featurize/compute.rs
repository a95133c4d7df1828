//! Computes the two halves of a clip's features, or the reason why the clip is bad.

use voxmill_audio::{AudioError, Effort};
use voxmill_text::symbols;

use super::{ClipFeaturizer, Recipe, with_causes};
use crate::cache::{Cache, Fingerprint};
use crate::features::{AudioFeatures, TextFeatures};
use crate::manifest::{Clip, QuarantineEntry, Reason};

/// The text half of a clip's features.
pub(crate) fn text_features(clip: &Clip, recipe: &Recipe) -> Result<TextFeatures, QuarantineEntry> {
    let language = recipe.language_of(clip);
    let text = recipe.front_end.features(&clip.text, language);
    let text =
        text.map_err(|error| clip.quarantine(Reason::named("text not read"), with_causes(&error)))?;
    if text.tokens.iter().any(|&id| symbols::is_spoken(id)) {
        return Ok(text);
    }
    let reason = Reason::named("nothing to say");
    Err(clip.quarantine(reason, "nothing in the text can be read aloud"))
}

/// The audio half, and what it was computed from.
#[derive(Debug)]
pub(crate) struct ComputedAudio {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) features: AudioFeatures,
    /// Taken over from the cache.
    pub(crate) kept: bool,
    pub(crate) effort: Effort,
}

/// `still_good` is the cache if the clip's frames in it can be taken over.
pub(crate) fn audio_features(
    clip: &Clip,
    mut fingerprint: Fingerprint,
    still_good: Option<&Cache>,
    featurizer: &mut ClipFeaturizer,
) -> Result<ComputedAudio, QuarantineEntry> {
    if let Some(before) = still_good
        // A shard that proves damaged only now is no loss: the file is there to be read again.
        && let Ok(Some(cached)) = before.get(&clip.id)
    {
        // Equal size and time, or it would not be fresh: what is known of its content still holds.
        let known = before.entry(&clip.id);
        let known = known.and_then(|entry| entry.fingerprint.audio.content);
        fingerprint.audio.content = fingerprint.audio.content.or(known);
        return Ok(ComputedAudio {
            fingerprint,
            features: cached.to_audio(),
            kept: true,
            effort: Effort::default(),
        });
    }
    let path = clip.audio_path();
    // Before decoding: a file that changes in between then differs from its stamp and is rebuilt next time.
    let stamp = featurizer.stamp(&path);
    fingerprint.audio =
        stamp.map_err(|error| clip.quarantine(Reason::UNREADABLE_AUDIO, error.to_string()))?;
    let features = featurizer.featurize(&path);
    let features = features.map_err(|error| bad_audio(clip, &error))?;
    Ok(ComputedAudio {
        fingerprint,
        features,
        kept: false,
        effort: featurizer.effort,
    })
}

/// A clip whose file gives no features.
pub(crate) fn bad_audio(clip: &Clip, error: &AudioError) -> QuarantineEntry {
    clip.quarantine(Reason::named(error.kind()), with_causes(error))
}
