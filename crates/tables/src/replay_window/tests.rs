//! The window against a set, and the number of what is lost.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// The window as a set.
#[derive(Default)]
struct Model {
    seen: BTreeSet<u64>,
    top: u64,
}

impl Model {
    fn accept(&mut self, number: u64, size: u64) -> Result<(), Replay> {
        if number == 0 || number <= self.top && self.top - number >= size {
            return Err(Replay::Late);
        }
        if !self.seen.insert(number) {
            return Err(Replay::Replayed);
        }
        self.top = self.top.max(number);
        Ok(())
    }

    /// Numbers never accepted in the blocks that have given way in a ring of so many blocks.
    fn lost(&self, ring: u64) -> u64 {
        let blocks = (self.top / BLOCK + 1).saturating_sub(ring);
        let passed = (blocks * BLOCK).saturating_sub(1);
        passed - self.seen.range(..blocks * BLOCK).count() as u64
    }
}

fn numbers() -> impl Strategy<Value = Vec<i64>> {
    let step = prop_oneof![
        6 => -3_i64..6,
        3 => -300_i64..300,
        1 => -70_000_i64..70_000,
        1 => 0_i64..(1 << 31),
    ];
    prop::collection::vec(step, 1..400)
}

fn sizes() -> impl Strategy<Value = u32> {
    prop_oneof![Just(64_u32), Just(100), 64_u32..4_096, Just(65_536)]
}

proptest! {
    #[test]
    fn it_is_a_set_with_a_lower_end(size in sizes(), steps in numbers()) {
        let (window, mut model) = (ReplayWindow::new(size, 0).unwrap(), Model::default());
        let mut at = 0_i64;
        for step in steps {
            at = (at + step).max(0);
            let number = at as u64;
            let checked = window.check(number);
            let expected = model.accept(number, window.size);
            prop_assert_eq!(checked, expected);
            prop_assert_eq!(window.accept(number), expected);
            prop_assert_eq!(window.top(), model.top);
        }
        prop_assert_eq!(window.lost(), model.lost(window.words.len() as u64));
    }

    #[test]
    fn it_goes_on_behind_numbers_that_were_used(size in sizes(), floor in prop_oneof![0_u64..5_000, any::<u64>().prop_map(|it| it >> 9)]) {
        let window = ReplayWindow::new(size, floor).unwrap();
        for number in floor.saturating_sub(300)..=floor {
            prop_assert!(window.accept(number).is_err(), "{} of {}", number, floor);
        }
        for number in floor + 1..floor + 3_000 {
            prop_assert_eq!(window.accept(number), Ok(()), "{} behind {}", number, floor);
            prop_assert_eq!(window.accept(number), Err(Replay::Replayed));
        }
        prop_assert_eq!(window.lost(), 0);
    }

    #[test]
    fn the_upper_half_follows_from_the_window(
        top in prop_oneof![1_u64..100, (1_u64 << 32) - 200..(1 << 32) + 200, any::<u64>().prop_map(|it| it >> 8)],
        back in 0_u64..64,
        ahead in 1_u64..(1 << 31),
    ) {
        let window = ReplayWindow::new(64, top - 1).unwrap();
        window.accept(top).unwrap();
        for number in [top.saturating_sub(back), top + ahead] {
            prop_assert_eq!(window.extended(number as u32), number, "top {}", top);
        }
    }
}

#[test]
fn lost_numbers_are_counted_once_they_cannot_come_any_more() {
    let window = ReplayWindow::new(64, 0).unwrap();
    (1..=10).chain(12..=1_000).for_each(|it| window.accept(it).unwrap());
    assert_eq!(window.lost(), 1);
    window.accept(1_000_000).unwrap();
    // Of the last blocks, as many as the ring has may still come.
    let passed = (1_000_000 / BLOCK + 1 - window.words.len() as u64) * BLOCK - 1;
    assert_eq!(window.lost(), passed - 999);
}

#[test]
fn workers_that_share_a_window_accept_each_number_once() {
    let window = ReplayWindow::new(4_096, 0).unwrap();
    let accept = || (1..=20_000_u64).filter(|it| window.accept(*it).is_ok()).collect::<Vec<_>>();
    let mut accepted: Vec<u64> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(accept)).collect();
        all.into_iter().flat_map(|it| it.join().unwrap()).collect()
    });
    accepted.sort_unstable();
    let twice = accepted.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "accepted twice");
    // One that runs ahead may leave numbers of others behind the window.
    let count = accepted.len() as u64;
    assert!(count + window.lost() + 8_192 >= 20_000, "{count}");
    assert_eq!(window.top(), 20_000);
}
