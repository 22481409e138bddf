//! Options against a reader of their own, and shifted segments against a naive model.

use proptest::prelude::*;

use super::*;
use crate::checksum::Pseudo;
use crate::tcp::{Builder, check, parse};

const PSEUDO: Pseudo = Pseudo::Ip4 {
    source: core::net::Ipv4Addr::LOCALHOST,
    destination: core::net::Ipv4Addr::LOCALHOST,
};

fn options() -> impl Strategy<Value = SynOptions> {
    let timestamps = any::<(u32, u32)>().prop_map(|(value, echo)| Timestamps { value, echo });
    let timestamps = prop::option::of(timestamps);
    (any::<Option<u16>>(), any::<Option<u8>>(), any::<bool>(), timestamps).prop_map(
        |(segment_size, scale, sack, timestamps)| SynOptions {
            segment_size,
            scale,
            sack,
            timestamps,
        },
    )
}

/// An option of a segment with data, as it comes.
#[derive(Clone, Debug)]
enum Part {
    None,
    Sack(Vec<u32>),
    Timestamps(u32, u32),
    Other(Vec<u8>),
}

impl Part {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::None => out.push(1),
            Self::Sack(edges) => {
                out.extend([5, 2 + 4 * edges.len() as u8]);
                out.extend(edges.iter().flat_map(|edge| edge.to_be_bytes()));
            }
            Self::Timestamps(value, echo) => {
                out.extend([8, 10]);
                out.extend([value.to_be_bytes(), echo.to_be_bytes()].concat());
            }
            Self::Other(data) => {
                out.extend([99, 2 + data.len() as u8]);
                out.extend(data);
            }
        }
    }

    fn shifted(&self, shift: &Shift, has_ack: bool) -> Self {
        match self {
            Self::Sack(edges) if has_ack => {
                let edges = edges.iter().map(|edge| edge.wrapping_add(shift.acknowledgement));
                Self::Sack(edges.collect())
            }
            Self::Timestamps(value, echo) => {
                let echo = if has_ack { echo.wrapping_add(shift.echo) } else { *echo };
                Self::Timestamps(value.wrapping_add(shift.value), echo)
            }
            other => other.clone(),
        }
    }
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        2 => Just(Part::None),
        3 => prop::collection::vec(any::<u32>(), 0..=6).prop_map(Part::Sack),
        3 => any::<(u32, u32)>().prop_map(|(value, echo)| Part::Timestamps(value, echo)),
        1 => prop::collection::vec(any::<u8>(), 0..5).prop_map(Part::Other),
    ];
    prop::collection::vec(part, 0..6)
}

/// The options of parts that fit, padded by their end.
fn written(parts: &[Part]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        let mut more = out.clone();
        part.write(&mut more);
        if more.len() <= 40 {
            out = more;
        }
    }
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

fn segment(builder: &Builder<'_>, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 128];
    let length = builder.build(&mut out, &PSEUDO, data).unwrap();
    out.truncate(length);
    out
}

#[test]
fn all_options_of_a_linux_syn_fit() {
    let timestamps = Some(Timestamps { value: 0x0102_0304, echo: 0 });
    let all = SynOptions { segment_size: Some(1460), scale: Some(7), sack: true, timestamps };
    let mut out = [0; SYN_OPTIONS];
    assert_eq!(all.write(&mut out), 20);
    assert_eq!(out, [2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7]);
}

#[test]
fn windows_are_cut_and_never_grow_by_rounding() {
    assert_eq!([scaled(1, 16), scaled(1, 15), scaled(3, 14)], [u16::MAX, 1 << 15, 49_152]);
    assert_eq!([scaled(255, -8), scaled(256, -8), scaled(65_535, -16)], [0, 1, 0]);
    assert_eq!([scaled(7, 0), scaled(0, 127), scaled(9, i8::MIN)], [7, 0, 0]);
}

proptest! {
    #[test]
    fn what_is_written_is_read(all in options()) {
        let mut out = [0; SYN_OPTIONS];
        let length = all.write(&mut out);
        prop_assert!(length.is_multiple_of(4));
        let bytes = segment(&Builder { options: &out[..length], ..Builder::default() }, &[]);
        let view = check(&bytes, &PSEUDO).unwrap();
        prop_assert_eq!(SynOptions::of(&view), all);
        prop_assert_eq!(Timestamps::of(&view), all.timestamps);
    }

    #[test]
    fn shifted_segments_are_those_with_other_numbers(
        parts in parts(),
        numbers: [u32; 2],
        (window, flags) in any::<(u16, u8)>(),
        more: [u32; 4],
        by in -16..=16_i8,
        data in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let [sequence, acknowledgement, value, echo] = more;
        let by = Shift { sequence, acknowledgement, value, echo, window: by };
        let [first, ack] = numbers;
        let options = written(&parts);
        let builder = Builder {
            source_port: 7,
            destination_port: 9,
            sequence: first,
            acknowledgement: ack,
            flags,
            window,
            urgent: 0,
            options: &options,
        };
        let mut changed = segment(&builder, &data);
        let whole = changed.clone();
        prop_assert!(shift(&mut changed, &by));
        let has_ack = flags & flag::ACK != 0;
        // Parts that did not fit are left out in both.
        let expected: Vec<Part> = parts.iter().map(|part| part.shifted(&by, has_ack)).collect();
        let expected = Builder {
            sequence: first.wrapping_add(sequence),
            acknowledgement: if has_ack { ack.wrapping_add(acknowledgement) } else { ack },
            window: if flags & flag::SYN != 0 { window } else { scaled(window, by.window) },
            options: &written(&expected),
            ..builder
        };
        let view = check(&changed, &PSEUDO).unwrap();
        prop_assert_eq!(Builder::of(&view), expected);
        prop_assert_eq!(view.payload(), &data[..]);
        // A wrong checksum stays wrong; a cut header stays as it is.
        let mut wrong = whole.clone();
        wrong[16] ^= 0x40;
        prop_assert!(shift(&mut wrong, &by));
        prop_assert!(check(&wrong, &PSEUDO).is_err());
        let mut cut = whole[..19].to_vec();
        prop_assert!(!shift(&mut cut, &by));
        prop_assert_eq!(&cut[..], &whole[..19]);
    }

    /// Behind so many bytes of padding: at even and odd places.
    #[test]
    fn segment_sizes_of_syns_are_lowered(
        (padding, size, most) in (0..8_usize, any::<u16>(), any::<u16>()),
        flags: u8,
        data in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let options = |size: u16| {
            let [high, low] = size.to_be_bytes();
            let mut options = vec![1; padding];
            options.extend([2, 4, high, low, 99, 3, 7]);
            options.resize(options.len().next_multiple_of(4), 0);
            options
        };
        let given = options(size);
        let builder = Builder { flags, options: &given, ..Builder::default() };
        let whole = segment(&builder, &data);
        let mut changed = whole.clone();
        let is_lower = flags & flag::SYN != 0 && size > most;
        prop_assert_eq!(lower_segment_size(&mut changed, most), is_lower);
        let expected = options(if is_lower { most } else { size });
        let view = check(&changed, &PSEUDO).unwrap();
        prop_assert_eq!(view.option_bytes(), &expected[..]);
        prop_assert_eq!(view.payload(), &data[..]);
        let mut wrong = whole;
        wrong[16] ^= 0x40;
        lower_segment_size(&mut wrong, most);
        prop_assert!(check(&wrong, &PSEUDO).is_err());
    }

    #[test]
    fn any_bytes_with_lower_segment_sizes_keep_their_checksum(
        mut bytes in prop::collection::vec(any::<u8>(), 0..80),
        most: u16,
    ) {
        let whole = bytes.clone();
        if lower_segment_size(&mut bytes, most) {
            let sum = |bytes: &[u8]| checksum::fold(checksum::sum(bytes));
            prop_assert_eq!(sum(&bytes) % 0xffff, sum(&whole) % 0xffff);
        } else {
            prop_assert_eq!(bytes, whole);
        }
    }

    #[test]
    fn any_bytes_keep_their_length_and_checksum(
        mut bytes in prop::collection::vec(any::<u8>(), 0..80),
        numbers: [u32; 4],
    ) {
        let [sequence, acknowledgement, value, echo] = numbers;
        let whole = bytes.clone();
        let by = Shift { sequence, acknowledgement, value, echo, window: 3 };
        if shift(&mut bytes, &by) {
            prop_assert!(parse(&whole).is_ok());
            let sum = |bytes: &[u8]| checksum::fold(checksum::sum(bytes));
            // 0 and 0xffff are the same number.
            prop_assert_eq!(sum(&bytes) % 0xffff, sum(&whole) % 0xffff);
        } else {
            prop_assert_eq!(&bytes, &whole);
            prop_assert!(parse(&whole).is_err());
        }
    }
}

/// Data in front of the edges of a SACK block has changed by more than data in front of what is acknowledged.
#[test]
fn each_edge_of_a_block_has_its_own_shift() {
    let options =
        |edges: [u32; 2]| [&[1, 1, 5, 10], edges.map(u32::to_be_bytes).as_flattened()].concat();
    let given = options([900, 1_200]);
    let builder =
        Builder { acknowledgement: 500, flags: flag::ACK, options: &given, ..Builder::default() };
    let mut bytes = segment(&builder, &[]);
    let by = |edge: u32| if edge > 1_000 { 7 } else { 3 };
    assert!(shift_edges(&mut bytes, &Shift::default(), by));
    let expected = options([903, 1_207]);
    let view = check(&bytes, &PSEUDO).unwrap();
    assert_eq!(Builder::of(&view), Builder { options: &expected, ..builder });
}
