//! Why a header or message could not be built into the buffer.

use core::fmt;

/// Why a builder wrote nothing (or nothing of use) and gave no length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The output slice is too short: give at least `needed` bytes.
    NoSpace {
        /// Bytes that the header or message takes.
        needed: usize,
        /// Bytes that the output slice has.
        available: usize,
    },
    /// The length does not fit the format's length field: send less.
    TooLong {
        /// Requested length, in bytes.
        length: usize,
        /// Largest length that the format can express, in bytes.
        limit: usize,
    },
    /// Options must be a whole number of 32-bit words and fit the header: pad or shorten them.
    BadOptions {
        /// Length of the options given, in bytes.
        length: usize,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace { needed, available } => {
                write!(out, "no space: {needed} bytes needed, {available} available")
            }
            Self::TooLong { length, limit } => {
                write!(
                    out,
                    "too long: {length} bytes requested, at most {limit} fit the length field"
                )
            }
            Self::BadOptions { length } => {
                write!(out, "{length} bytes of options are not whole 32-bit words or do not fit")
            }
        }
    }
}

impl core::error::Error for BuildError {}

/// The first `needed` bytes of `out`, or [`BuildError::NoSpace`].
#[inline]
pub(crate) fn prefix_of(out: &mut [u8], needed: usize) -> Result<&mut [u8], BuildError> {
    let available = out.len();
    out.get_mut(..needed).ok_or(BuildError::NoSpace { needed, available })
}

/// `length` as a 16-bit length field that may hold at most `u16::MAX`.
#[inline]
pub(crate) fn length16(length: usize) -> Result<u16, BuildError> {
    u16::try_from(length).map_err(|_| BuildError::TooLong { length, limit: u16::MAX.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_needed() {
        let mut out = [0; 3];
        assert_eq!(prefix_of(&mut out, 3).map(|prefix_of| prefix_of.len()), Ok(3));
        let refused = prefix_of(&mut out, 4).unwrap_err();
        assert_eq!(refused, BuildError::NoSpace { needed: 4, available: 3 });
        assert_eq!(refused.to_string(), "no space: 4 bytes needed, 3 available");
        assert_eq!(length16(65_535), Ok(65_535));
        assert!(length16(65_536).unwrap_err().to_string().contains("at most 65535"));
        assert!(BuildError::BadOptions { length: 3 }.to_string().starts_with("3 bytes"));
    }
}
