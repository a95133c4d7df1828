//! Sets of verbs, for the table to say which of them take a setting.

/// Any of the verbs that take settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verbs(u8);

impl Verbs {
    pub const NONE: Verbs = Verbs(0);
    pub const PREPARE: Verbs = Verbs(1);
    pub const TRAIN: Verbs = Verbs(1 << 1);
    pub const PROFILE: Verbs = Verbs(1 << 2);
    pub const ANALYZE: Verbs = Verbs(1 << 3);
    pub const VALIDATE: Verbs = Verbs(1 << 4);
    pub const SYNTHESIZE: Verbs = Verbs(1 << 5);
    pub const SCALE: Verbs = Verbs(1 << 6);
    pub const TEXT: Verbs = Verbs(1 << 7);

    /// What `train` would be given goes to these too.
    pub(super) const TRAINING: Verbs = Verbs::TRAIN.and(Verbs::VALIDATE);
    /// They have a model that trains.
    pub(super) const MODEL: Verbs = Verbs::TRAINING.and(Verbs::PROFILE).and(Verbs::SCALE);
    /// They make batches.
    pub(super) const BATCHES: Verbs = Verbs::MODEL.and(Verbs::ANALYZE);
    /// They read a dataset.
    pub(super) const DATASET: Verbs = Verbs::BATCHES.and(Verbs::PREPARE);

    pub(super) const fn and(self, other: Verbs) -> Verbs {
        Verbs(self.0 | other.0)
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether these are among them.
    pub fn has(self, verb: Verbs) -> bool {
        self.0 & verb.0 != 0
    }

    /// By the name that is typed; the others take no settings of the table.
    pub fn named(name: &str) -> Verbs {
        match name {
            "prepare" => Verbs::PREPARE,
            "train" => Verbs::TRAIN,
            "profile" => Verbs::PROFILE,
            "analyze" => Verbs::ANALYZE,
            "validate" => Verbs::VALIDATE,
            "synthesize" => Verbs::SYNTHESIZE,
            "scale" => Verbs::SCALE,
            "text" => Verbs::TEXT,
            _ => Verbs::NONE,
        }
    }
}
