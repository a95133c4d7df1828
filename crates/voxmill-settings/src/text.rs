//! How text is read: the settings of `text`, which the other verbs share.

use voxmill_text::FrontEndOptions;
use voxmill_text::language::Language;

use super::ResolvedSetting;
use super::resolver::Resolver;
use crate::args::Flags;
use crate::config::keys::{self, Verbs};
use crate::note::Note;

/// The settings of `text`, valid as a whole.
#[derive(Debug)]
pub struct TextSettings {
    pub language: Option<Language>,
    pub text: FrontEndOptions,
    pub notes: Vec<Note>,
    pub resolved: Vec<ResolvedSetting>,
}

impl TextSettings {
    /// Refuses what contradicts itself or cannot be had.
    pub fn resolve(flags: Flags) -> anyhow::Result<TextSettings> {
        let mut resolver = Resolver::new(flags, Verbs::TEXT)?;
        let language = resolver.optional(&keys::LANGUAGE);
        let text = front_end(&mut resolver);
        Ok(TextSettings {
            language,
            text,
            notes: resolver.notes(),
            resolved: resolver.resolved,
        })
    }
}

pub(super) fn front_end(r: &mut Resolver) -> FrontEndOptions {
    FrontEndOptions {
        lexicon: r.optional(&keys::LEXICON),
        espeak: r.pick::<bool>(&keys::ESPEAK).then(|| "espeak-ng".into()),
    }
}
