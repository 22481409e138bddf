//! Segments and states of any content: no panic, and what they mean is bounded.

use proptest::prelude::*;
use stoa_tables::flow_table::TCP_WORDS;

use super::*;

fn segments() -> impl Strategy<Value = Segment> {
    let number = prop_oneof![3 => any::<u32>(), 1 => 0..3_u32, 1 => 0xffff_fffe..=u32::MAX];
    let fields = (any::<u8>(), number.clone(), number, any::<u16>(), any::<u32>());
    (fields, any::<Option<u8>>(), any::<[bool; 2]>()).prop_map(
        |((flags, sequence, acknowledgement, window, payload), scale, [sack, timestamps])| {
            Segment { flags, sequence, acknowledgement, window, payload, scale, sack, timestamps }
        },
    )
}

proptest! {
    #[test]
    fn any_segment_meets_any_state(
        words in any::<[u32; TCP_WORDS]>(),
        segments in prop::collection::vec((any::<bool>(), segments()), 1..40),
        liberal: bool,
        loose: bool,
        now: u32,
    ) {
        // As from memory that outlived another version.
        let mut tcp = Tcp::from_words(words);
        prop_assert_eq!(tcp.words(), words);
        let options = Options { liberal, loose };
        for (is_reply, segment) in segments {
            let from = if is_reply { Direction::Reply } else { Direction::Original };
            let before = tcp;
            let step = tcp.step(from, &segment, options, now);
            tcp = step.state;
            prop_assert_eq!(Tcp::from_words(tcp.words()), tcp);
            prop_assert!(Class::ALL.contains(&tcp.class()));
            let _ = (tcp.phase(), tcp.has_sack(), tcp.has_timestamps());
            if matches!(step.verdict, Verdict::Drop(_) | Verdict::Challenge | Verdict::Replace) {
                prop_assert_eq!((tcp.sides, tcp.phase), (before.sides, before.phase));
                prop_assert_eq!(step.events, Events::default());
            }
            if let Ok(opened) = Tcp::open(&segment, options) {
                prop_assert_eq!(opened.class(), Class::TcpOpening);
            }
            tcp.relax();
        }
    }

    /// What the tracker reads from bytes of any content.
    #[test]
    fn any_bytes_are_a_segment_or_none(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(view) = stoa_wire::tcp::parse(&bytes) {
            let segment = Segment::of(&view);
            prop_assert_eq!(segment.payload as usize, view.payload().len());
            prop_assert!(segment.flags & SYN != 0 || segment.scale.is_none());
        }
    }
}

#[test]
fn each_reason_has_a_name_of_its_own() {
    let mut names: Vec<_> = Refusal::ALL.iter().map(|reason| reason.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Refusal::ALL.len());
}

/// A scale beyond the largest one.
#[test]
fn states_of_other_versions_are_read_without_panic() {
    let scales = 0xf | 0xf << 16;
    let tcp = Tcp::from_words([0, 0, 0, 0, scales, u32::from(SYN_SENT) << 12]);
    for flags in [SYN, SYN_ACK, ACK] {
        let segment = Segment { flags, acknowledgement: 1, window: 9, ..Segment::default() };
        for from in [Direction::Original, Direction::Reply] {
            let _ = tcp.step(from, &segment, Options::default(), 0);
        }
    }
}
