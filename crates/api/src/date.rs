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

/// The seconds since 1970 of "2026-11-22T09:42:48Z". The seconds may be absent; a space may stand for the T; in place
/// of the Z, an offset such as +01:00 or nothing, for UTC. `None`: it is no such time, or before 1970.
pub fn unix_s(text: &str) -> Option<u64> {
    let number = |text: &str| {
        let is_right = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        is_right.then(|| text.parse::<u64>().ok()).flatten()
    };
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let (time, offset) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, "Z"),
    };
    let offset_s = match offset {
        "Z" | "z" => 0,
        other => {
            let (hours, minutes) = other[1..].split_once(':')?;
            let minutes = number(hours).filter(|it| *it < 24)? * 60 + number(minutes)?;
            let offset = i64::try_from(minutes * 60).ok()?;
            if other.starts_with('-') { -offset } else { offset }
        }
    };
    let mut parts = date.split('-').map(number);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let mut parts = time.split(':');
    let (hours, minutes) = (number(parts.next()?)?, number(parts.next()?)?);
    let seconds = parts.next().map_or(Some(0), |it| number(it.split('.').next()?))?;
    let is_right = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hours < 24
        && minutes < 60
        && seconds < 61
        && parts.next().is_none();
    if !is_right {
        return None;
    }
    // The day of a date is found by bisection in its inverse.
    let (mut low, mut high) = (0, 3_000_000);
    while low < high {
        let middle = u64::midpoint(low, high);
        if civil(middle) < (year, month, day) { low = middle + 1 } else { high = middle }
    }
    if civil(low) != (year, month, day) {
        return None;
    }
    let all = i64::try_from(low * 86_400 + hours * 3600 + minutes * 60 + seconds).ok()?;
    u64::try_from(all - offset_s).ok()
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
    fn times_are_read_as_they_are_written() {
        for seconds in [0, 951_782_400, 1_795_223_444, 4_102_444_799] {
            assert_eq!(unix_s(&of_unix_s(seconds)), Some(seconds));
        }
        let known = unix_s("2026-11-29T08:00:00Z");
        assert_eq!(known, Some(1_795_939_200));
        for same in ["2026-11-29 08:00", "2026-11-29T09:00:00+01:00", "2026-11-29T08:00:00.75Z"] {
            assert_eq!(unix_s(same), known, "{same}");
        }
        for wrong in [
            "",
            "2026-11-29",
            "2026-02-30T00:00Z",
            "2026-11-29T24:00Z",
            "1969-12-31T00:00Z",
            "tcp",
            "1T2",
        ] {
            assert_eq!(unix_s(wrong), None, "{wrong}");
        }
    }

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
