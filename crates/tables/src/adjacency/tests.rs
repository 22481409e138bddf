//! The lines of adjacencies, and how the table gives them out.

use super::*;

fn ethernet(last: u8, len: usize) -> Adjacency {
    Adjacency {
        interface: 7,
        mtu: 1500,
        kind: AdjacencyKind::Complete,
        has_output_features: false,
        context: 0xfeed,
        rewrite: (0..len).map(|at| if at + 1 == len { last } else { at as u8 + 1 }).collect(),
    }
}

#[test]
fn the_rewrite_ends_at_the_end_of_the_line() {
    for len in 0..=MAX_REWRITE {
        let mut table = Adjacencies::new(2);
        let id = table.add(&ethernet(0xee, len)).unwrap();
        assert_eq!(table.get(id), Ok(ethernet(0xee, len)));
        let reader = table.reader();
        let line = reader.get(id).unwrap();
        assert!(line.head().is_complete());
        assert_eq!(line.head().rewrite_len(), len);
        assert_eq!(line.context(), 0xfeed);
        if len > 0 {
            assert_eq!(line.rewrite_word(3).to_ne_bytes()[7], 0xee);
        }
        assert!(reader.rewrite(line)[..64 - len].iter().all(|&byte| byte == 0));
        assert_eq!(reader.rewrite(line)[64 - len..], ethernet(0xee, len).rewrite);
        assert_eq!(line.rewrite_bytes()[..], reader.rewrite(line)[32..]);
    }
}

#[test]
fn limits_are_named_and_lines_wait_for_their_grace_period() {
    let mut table = Adjacencies::new(2);
    assert_eq!(
        table.add(&ethernet(1, MAX_REWRITE + 1)),
        Err(AdjacencyError::RewriteTooLong(MAX_REWRITE + 1))
    );
    let absent = Adjacency { kind: AdjacencyKind::Absent, ..ethernet(1, 14) };
    assert_eq!(table.add(&absent), Err(AdjacencyError::NoKind));
    let first = table.add(&ethernet(1, 14)).unwrap();
    let second = table.add(&ethernet(2, 14)).unwrap();
    assert_eq!(table.add(&ethernet(3, 14)), Err(AdjacencyError::Full(2)));
    table.retire(first).unwrap();
    assert_eq!(table.retire(first), Err(AdjacencyError::Absent(first)));
    assert_eq!(table.retire(99), Err(AdjacencyError::Absent(99)));
    assert_eq!(table.add(&ethernet(3, 14)), Err(AdjacencyError::Full(2)));
    assert!(table.reader().get(first).unwrap().head().is_complete(), "still readable");
    table.retire_mark(1);
    table.reclaim(0);
    assert_eq!(table.pending(), 1);
    table.reclaim(1);
    assert_eq!(table.add(&ethernet(3, 14)), Ok(first));
    assert_eq!(table.get(second).unwrap().rewrite[13], 2);
    assert_eq!(table.len(), 2);
    assert!(table.reader().get(2).is_none());
}

#[test]
fn a_long_rewrite_takes_two_lines() {
    let mut table = Adjacencies::new(3);
    let first = table.add(&ethernet(1, SHORT_REWRITE + 1)).unwrap();
    // One line is left.
    assert_eq!(table.add(&ethernet(2, MAX_REWRITE)), Err(AdjacencyError::Full(3)));
    let long = table.reader().get(first).unwrap().long();
    assert_eq!(table.get(long), Err(AdjacencyError::Absent(long)));
    let second = table.add(&ethernet(2, SHORT_REWRITE)).unwrap();
    assert_eq!(table.add(&ethernet(3, 14)), Err(AdjacencyError::Full(3)));
    assert_eq!(table.get(first), Ok(ethernet(1, SHORT_REWRITE + 1)));
    // Both lines of the first one are free after its grace period, and short ones use them.
    table.retire(first).unwrap();
    table.retire_mark(1);
    assert_eq!(table.pending(), 2);
    table.reclaim(1);
    let short = [4, 5].map(|last| table.add(&ethernet(last, 14)).unwrap());
    for (id, last) in short.into_iter().zip([4, 5]) {
        assert_eq!(table.get(id), Ok(ethernet(last, 14)));
    }
    assert_eq!((table.len(), table.get(second)), (3, Ok(ethernet(2, SHORT_REWRITE))));
}

#[test]
fn output_features_hide_an_adjacency_from_the_fast_path() {
    for kind in [AdjacencyKind::Complete, AdjacencyKind::Tunnel] {
        let mut table = Adjacencies::new(1);
        let adjacency = Adjacency { kind, has_output_features: true, ..ethernet(1, 14) };
        let id = table.add(&adjacency).unwrap();
        assert_eq!(table.get(id), Ok(adjacency));
        let head = table.reader().get(id).unwrap().head();
        assert!(!head.is_complete() && head.has_output_features());
        assert_eq!((head.kind(), head.kind_byte()), (kind, kind as u8 | OUTPUT_FEATURES));
        assert_eq!((head.interface(), head.mtu(), head.rewrite_len()), (7, 1500, 14));
    }
}

#[test]
fn all_kernels_find_the_adjacencies_of_other_interfaces() {
    use crate::lpm::Kernel;
    let mut table = Adjacencies::new(8);
    for interface in [7, 8, 9] {
        table.add(&Adjacency { interface, ..ethernet(1, 14) }).unwrap();
    }
    let reader = table.reader();
    for lanes in [0, 1, 15, 16, 17, 64, 100, 256] {
        let ids: Vec<u32> = (0..lanes).map(|lane| [0, 1, 2, 3, 8, u32::MAX][lane % 6]).collect();
        let interfaces: Vec<u32> = (0..lanes as u32).map(|lane| 7 + lane % 5 % 3).collect();
        let expected = |lane: usize| ids[lane] > 2 || interfaces[lane] != 7 + ids[lane];
        for kernel in [Kernel::Scalar, Kernel::Bits, Kernel::Avx2, Kernel::Avx512] {
            let found = reader.leave_elsewhere(kernel.or_narrower(), &ids, &interfaces);
            for lane in 0..256 {
                let is_elsewhere = found[lane / 64] >> (lane % 64) & 1 == 1;
                assert_eq!(is_elsewhere, lane < lanes && expected(lane), "{kernel:?} {lane}");
            }
        }
    }
}
