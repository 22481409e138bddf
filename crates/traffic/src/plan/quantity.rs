//! Rates, sizes and times in a run file.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

/// Bytes of a frame's overhead on the wire: preamble and minimum inter-frame gap (IEEE 802.3).
pub const WIRE: usize = 20;
/// The highest rate in packets per second.
const RATE_MAX: f64 = 1e9;
/// The longest run in seconds: a day.
const SECONDS_MAX: f64 = 86_400.0;

/// A transmit rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Packets per second.
    Packets(f64),
    /// Bits per second on the wire, preamble and gap included.
    Bits(f64),
    /// A share of the port's line rate.
    Line(f64),
    /// As much as the port accepts.
    Max,
}

impl Rate {
    /// Packets per second for frames of this mean size in bytes, FCS included, at this line rate in
    /// bits per second. `Ok(None)`: as many as the port accepts.
    ///
    /// # Errors
    ///
    /// A share of an unknown line rate.
    pub fn packets(&self, frame: f64, line: Option<f64>) -> Result<Option<f64>, String> {
        let bits = (frame + WIRE as f64) * 8.0;
        let rate = match self {
            Self::Packets(rate) => *rate,
            Self::Bits(rate) => rate / bits,
            Self::Line(share) => {
                let line = line.ok_or(
                    "a share of a line rate that is not known: give the port \
                                       a line-rate, such as 10gbps, or the stream another rate",
                )?;
                share * line / bits
            }
            Self::Max => return Ok(None),
        };
        if !(rate > 0.0 && rate <= RATE_MAX) {
            return Err(format!(
                "{rate} packets per second: give more than 0 and at most 1 billion"
            ));
        }
        Ok(Some(rate))
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no rate: write 1mpps, 500kpps, 10pps, 2.5gbps, 100mbps, 40% or max"
            )
        };
        let lower = text.trim().to_ascii_lowercase();
        if lower == "max" {
            return Ok(Self::Max);
        }
        let end = lower.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(wrong)?;
        let (number, unit) = lower.split_at(end);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        if !(number > 0.0 && number.is_finite()) {
            return Err(format!("{text:?}: give a rate above 0"));
        }
        let rate = match unit.trim() {
            "pps" => Self::Packets(number),
            "kpps" => Self::Packets(number * 1e3),
            "mpps" => Self::Packets(number * 1e6),
            "kbps" | "kbit/s" => Self::Bits(number * 1e3),
            "mbps" | "mbit/s" => Self::Bits(number * 1e6),
            "gbps" | "gbit/s" => Self::Bits(number * 1e9),
            "%" if number > 100.0 => {
                return Err(format!("{text:?} is more than the line carries: give at most 100%"));
            }
            "%" => Self::Line(number / 100.0),
            _ => return Err(wrong()),
        };
        Ok(rate)
    }
}

/// Seconds.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no time: write 10s, 500ms or 2m; at most a day");
        let lower = text.trim().to_ascii_lowercase();
        let end = lower.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(lower.len());
        let (number, unit) = lower.split_at(end);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let seconds = match unit.trim() {
            "" | "s" => number,
            "ms" => number / 1e3,
            "m" | "min" => number * 60.0,
            "h" => number * 3600.0,
            _ => return Err(wrong()),
        };
        (seconds.is_finite() && (0.0..=SECONDS_MAX).contains(&seconds))
            .then_some(Self(seconds))
            .ok_or_else(wrong)
    }
}

/// The sizes of a stream's frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// All of this many bytes, FCS included.
    Fixed(u16),
    /// These sizes in turn.
    List(Vec<u16>),
    /// IPv4: 64 B 55 %, 594 B 25 %, 1518 B 20 %.
    Imix1,
    /// Half the first mix and half the third: both families alternate.
    Imix2,
    /// IPv6: 78 B 58 %, 496 B 3 %, 594 B 24 %, 1518 B 15 %.
    Imix3,
    /// IPv4: 64 B 45 %, 576 B 25 %, 1500 B 30 %.
    Campus,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no frame size: write bytes with FCS, imix1, imix2, imix3 or campus"
            )
        };
        match text.trim() {
            "imix1" => Ok(Self::Imix1),
            "imix2" => Ok(Self::Imix2),
            "imix3" => Ok(Self::Imix3),
            "campus" => Ok(Self::Campus),
            number => number.parse().map(Self::Fixed).map_err(|_| wrong()),
        }
    }
}

/// Reads a quantity from text or from a plain number.
macro_rules! read_text {
    ($($kind:ty),*) => {$(
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Scalar;
                impl<'de> de::Visitor<'de> for Scalar {
                    type Value = $kind;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(stringify!($kind))
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$kind, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<$kind, E> {
                        self.visit_str(&number.to_string())
                    }
                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<$kind, E> {
                        self.visit_str(&number.to_string())
                    }
                    fn visit_f64<E: de::Error>(self, number: f64) -> Result<$kind, E> {
                        self.visit_str(&number.to_string())
                    }
                }
                from.deserialize_any(Scalar)
            }
        }
    )*};
}
pub(super) use read_text;

read_text!(Rate, Seconds);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl<'de> de::Visitor<'de> for Scalar {
            type Value = Size;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a frame size, a list of them, or the name of a mix")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Size, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Size, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut from: A) -> Result<Size, A::Error> {
                let mut sizes = Vec::new();
                while let Some(size) = from.next_element()? {
                    sizes.push(size);
                }
                Ok(Size::List(sizes))
            }
        }
        from.deserialize_any(Scalar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_rates_and_converts_them_to_packets() {
        for (text, frame, line, desired) in [
            ("1mpps", 64.0, None, 1e6),
            ("2.5 Mpps", 64.0, None, 2.5e6),
            ("10gbps", 64.0, None, 14_880_952.38),
            ("100mbit/s", 1518.0, None, 8127.44),
            ("50%", 64.0, Some(10e9), 7_440_476.19),
        ] {
            let rate: Rate = text.parse().unwrap();
            let packets = rate.packets(frame, line).unwrap().unwrap();
            assert!((packets - desired).abs() < 0.01, "{text}: {packets}");
        }
        assert_eq!("max".parse::<Rate>().unwrap().packets(64.0, None), Ok(None));
        assert!(Rate::Line(0.5).packets(64.0, None).unwrap_err().contains("line-rate"));
        assert!(Rate::Packets(2e9).packets(64.0, None).is_err());
        for wrong in ["", "fast", "1", "0pps", "-1pps", "101%", "1 parsec", "1e400gbps"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn parses_times_and_sizes() {
        for (text, seconds) in [("10", 10.0), ("500ms", 0.5), ("2m", 120.0), ("1.5s", 1.5)] {
            assert_eq!(text.parse(), Ok(Seconds(seconds)));
        }
        for wrong in ["", "-1", "1d", "25h", "s"] {
            assert!(wrong.parse::<Seconds>().is_err(), "{wrong}");
        }
        assert_eq!("64".parse(), Ok(Size::Fixed(64)));
        assert_eq!("imix2".parse(), Ok(Size::Imix2));
        assert_eq!("campus".parse(), Ok(Size::Campus));
        assert!("imix4".parse::<Size>().is_err() && "70000".parse::<Size>().is_err());
    }
}
