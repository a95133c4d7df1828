//! Times of day: the calendar without a library for it.

use std::fmt;

/// A second in UTC, as `2026-11-18 20:14:21`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utc {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Utc {
    /// By the seconds since 1970, in the Gregorian calendar. Years are counted from March, so that the leap day is a
    /// year's last.
    pub fn of_unix(seconds: u64) -> Utc {
        let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = match from_march {
            0..10 => from_march + 3,
            _ => from_march - 9,
        };
        Utc {
            year: era * 400 + year + u64::from(month <= 2),
            month,
            day: of_year - (153 * from_march + 2) / 5 + 1,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }

    /// For the name of a file, so that names sort: `20261118-201421`.
    pub fn stamp(self) -> String {
        let keep = |c: &char| c.is_ascii_digit() || *c == ' ';
        let digits: String = self.to_string().chars().filter(keep).collect();
        digits.replace(' ', "-")
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Utc {
            year,
            month,
            day,
            hour,
            minute,
            second,
        } = self;
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates() {
        assert_eq!(Utc::of_unix(0).stamp(), "19700101-000000");
        assert_eq!(Utc::of_unix(951_782_400).stamp(), "20000229-000000");
        assert_eq!(Utc::of_unix(1_794_800_000).stamp(), "20261116-033320");
        assert_eq!(
            Utc::of_unix(1_794_800_000).to_string(),
            "2026-11-16 03:33:20"
        );
        assert_eq!(Utc::of_unix(978_307_199).to_string(), "2000-12-31 23:59:59");
    }
}
