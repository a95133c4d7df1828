//! How text is read: the settings of `text`, which the other verbs share.

use voxmill_speech::language::Language;
use voxmill_speech::text::FrontEndOptions;

use super::Shown;
use super::resolver::Resolver;
use crate::args::{FrontEndArgs, TextArgs};
use crate::config::keys;

#[derive(Debug)]
pub(crate) struct TextSettings {
    pub(crate) language: Option<Language>,
    pub(crate) text: FrontEndOptions,
    pub(crate) notes: Vec<String>,
    pub(crate) shown: Vec<Shown>,
}

impl TextSettings {
    pub(crate) fn resolve(args: &mut TextArgs) -> anyhow::Result<TextSettings> {
        let mut resolver = Resolver::new(args.config.config.as_deref())?;
        let language = resolver.optional(&keys::LANGUAGE, args.language, "detected");
        let text = front_end(&mut resolver, std::mem::take(&mut args.front_end));
        Ok(TextSettings {
            language,
            text,
            notes: resolver.notes(),
            shown: resolver.shown,
        })
    }
}

pub(super) fn front_end(r: &mut Resolver, args: FrontEndArgs) -> FrontEndOptions {
    FrontEndOptions {
        lexicon: r.optional(&keys::LEXICON, args.lexicon, "none"),
        espeak: r
            .pick(&keys::ESPEAK, args.espeak, false)
            .then(|| "espeak-ng".into()),
    }
}
