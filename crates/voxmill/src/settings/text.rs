//! How text is read: the settings of `text`, which the other verbs share.

use voxmill_text::FrontEndOptions;
use voxmill_text::language::Language;

use super::Shown;
use super::resolver::Resolver;
use crate::args::Flags;
use crate::config::keys::{self, Verbs};
use crate::note::Note;

#[derive(Debug)]
pub(crate) struct TextSettings {
    pub(crate) language: Option<Language>,
    pub(crate) text: FrontEndOptions,
    pub(crate) notes: Vec<Note>,
    pub(crate) shown: Vec<Shown>,
}

impl TextSettings {
    pub(crate) fn resolve(flags: Flags) -> anyhow::Result<TextSettings> {
        let mut resolver = Resolver::new(flags, Verbs::TEXT)?;
        let language = resolver.optional(&keys::LANGUAGE);
        let text = front_end(&mut resolver);
        Ok(TextSettings {
            language,
            text,
            notes: resolver.notes(),
            shown: resolver.shown,
        })
    }
}

pub(super) fn front_end(r: &mut Resolver) -> FrontEndOptions {
    FrontEndOptions {
        lexicon: r.optional(&keys::LEXICON),
        espeak: r.pick::<bool>(&keys::ESPEAK).then(|| "espeak-ng".into()),
    }
}
