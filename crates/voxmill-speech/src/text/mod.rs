pub mod dictionary;
pub mod letter_to_sound;
pub mod phonemes;
