//! Timestamps in the format of RFC 3339.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// "2026-11-22T09:42:48Z".
pub fn of_unix_s(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / 86_400);
    let (hours, minutes) = (seconds % 86_400 / 3600, seconds % 3600 / 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{:02}Z", seconds % 60)
}

/// "2026-11-22T09:42:48.123456Z"; times before 1970 become 1970.
pub fn with_micros(time: SystemTime) -> String {
    let since: Duration = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let whole = of_unix_s(since.as_secs());
    format!("{}.{:06}Z", whole.trim_end_matches('Z'), since.subsec_micros())
}

/// The Gregorian date of a number of days after 1970-01-01. Years are counted from March, so that the leap day is the
/// last day.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    // From 0000-03-01.
    let days = days + 719_468;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Each five months from March have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_known_timestamps() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(of_unix_s(seconds), text);
        }
        let time = UNIX_EPOCH + Duration::from_micros(1_500_000);
        assert_eq!(with_micros(time), "1970-01-01T00:00:01.500000Z");
    }

    /// Each day is compared with a calendar that adds one day at a time.
    #[test]
    fn no_day_is_missing() {
        let is_leap = |year: u64| {
            year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
        };
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..60_000 {
            assert_eq!(civil(days), (year, month, day));
            let february = if is_leap(year) { 29 } else { 28 };
            let length = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1];
            day += 1;
            if day > length {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
