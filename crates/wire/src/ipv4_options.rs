//! IPv4 options (RFC 791 section 3.1): the bytes between the fixed header and the payload.

use crate::ipv4::Ip4Error;

mod change;

pub use change::{Recorder, copied, fault, keep_records, record};

/// End of the list.
pub const END: u8 = 0;
/// One byte of padding.
pub const NO_OPERATION: u8 = 1;
/// Record route (RFC 791).
pub const RECORD_ROUTE: u8 = 7;
/// Internet timestamp (RFC 791).
pub const TIMESTAMP: u8 = 68;
/// Loose source route (RFC 791).
pub const LOOSE_SOURCE_ROUTE: u8 = 131;
/// Strict source route (RFC 791).
pub const STRICT_SOURCE_ROUTE: u8 = 137;
/// Router alert (RFC 2113).
pub const ROUTER_ALERT: u8 = 148;

/// One option; padding is not handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip4Option<'a> {
    /// Copied flag, class and number: a constant of this module, or another.
    pub kind: u8,
    /// What follows kind and length.
    pub data: &'a [u8],
}

impl Ip4Option<'_> {
    /// Whether each fragment must repeat this option.
    pub const fn is_copied(&self) -> bool {
        self.kind & 0x80 != 0
    }
}

/// The options one by one; ends after the first that is wrong.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Walks `bytes`, the header's part behind its first 20 bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Ip4Option<'a>, Ip4Error>;

    fn next(&mut self) -> Option<Self::Item> {
        // Each iteration takes at least one byte of at most 40.
        while let [kind, behind @ ..] = self.rest {
            match *kind {
                END => break,
                NO_OPERATION => self.rest = behind,
                kind => {
                    let length = behind.first().map_or(0, |length| usize::from(*length));
                    let Some(data) = self.rest.get(2..length) else {
                        self.rest = &[];
                        return Some(Err(Ip4Error::BadOption));
                    };
                    self.rest = &self.rest[length..];
                    return Some(Ok(Ip4Option { kind, data }));
                }
            }
        }
        self.rest = &[];
        None
    }
}

/// Which options of interest to a router are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PresentOptions {
    /// A loose or strict source route: refused by default (RFC 7126 section 4.3).
    pub source_route: bool,
    /// A route to record.
    pub record_route: bool,
    /// Times to record.
    pub timestamp: bool,
    /// Routers must examine the packet (RFC 2113).
    pub router_alert: bool,
}

/// Walks `bytes` of options once.
///
/// # Errors
/// [`Ip4Error::BadOption`] when an option's length is below 2 or beyond the header.
pub fn inspect(bytes: &[u8]) -> Result<PresentOptions, Ip4Error> {
    let mut present = PresentOptions::default();
    for option in Options::new(bytes) {
        match option?.kind {
            LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE => present.source_route = true,
            RECORD_ROUTE => present.record_route = true,
            TIMESTAMP => present.timestamp = true,
            ROUTER_ALERT => present.router_alert = true,
            _ => {}
        }
    }
    Ok(present)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn walks_real_options() {
        let bytes = [1, 131, 7, 4, 10, 0, 0, 1, 148, 4, 0, 0, 0, 255, 255, 255];
        let options: Vec<_> = Options::new(&bytes).collect();
        assert_eq!(
            options,
            [
                Ok(Ip4Option { kind: LOOSE_SOURCE_ROUTE, data: &[4, 10, 0, 0, 1] }),
                Ok(Ip4Option { kind: ROUTER_ALERT, data: &[0, 0] }),
            ]
        );
        assert!(options[0].unwrap().is_copied());
        let present =
            PresentOptions { source_route: true, router_alert: true, ..PresentOptions::default() };
        assert_eq!(inspect(&bytes), Ok(present));
        let strict = inspect(&[137, 3, 4, 0]).unwrap();
        assert!(strict.source_route && !strict.record_route);
        let recorded = inspect(&[7, 3, 4, 68, 4, 5, 0, 0]).unwrap();
        assert!(recorded.record_route && recorded.timestamp && !recorded.source_route);
        assert_eq!(inspect(&[]), Ok(PresentOptions::default()));
    }

    #[test]
    fn refuses_wrong_lengths() {
        for bytes in [&[131u8][..], &[131, 0], &[131, 1, 0, 0], &[131, 3], &[1, 1, 1, 131, 255]] {
            assert_eq!(inspect(bytes), Err(Ip4Error::BadOption), "{bytes:?}");
            assert_eq!(Options::new(bytes).count(), 1);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..=40)) {
            prop_assert!(Options::new(&bytes).count() <= 20);
            let wrong = Options::new(&bytes).any(|option| option.is_err());
            prop_assert_eq!(inspect(&bytes).is_err(), wrong);
        }
    }
}
