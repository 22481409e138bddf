//! What a write costs: `cargo run --release -p stoa-warm-restart --example write_cost`.

use std::hint::black_box;
use std::time::Instant;

use stoa_warm_restart::{Record, Regions, State};

const ENTRIES: u32 = 1 << 16;
const ROUNDS: u32 = 50;

struct Of<V>(std::marker::PhantomData<V>);

impl<V: Record> State for Of<V> {
    const NAME: &'static str = "cost";
    const VERSION: u32 = 1;
    type Key = u32;
    type Value = V;

    fn is_valid(_: &u32, _: &V) -> bool {
        true
    }
}

fn measure<V: Record>(value: V) {
    let mut opened = Regions::in_this_process().open::<Of<V>>(ENTRIES as usize).expect("memory");
    let region = &mut opened.region;
    let mut slots: Vec<_> = (0..ENTRIES).filter_map(|key| region.insert(key, &value)).collect();
    let per_write =
        |start: Instant| start.elapsed().as_nanos() as f64 / f64::from(ENTRIES * ROUNDS);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        slots.iter_mut().for_each(|slot| slot.write(black_box(&value)));
    }
    let all = per_write(start);
    let start = Instant::now();
    for _ in 0..ENTRIES * ROUNDS {
        slots[0].write(black_box(&value));
    }
    let one = per_write(start);
    println!("value of {:3} bytes: {one:.1} ns to one entry, {all:.1} ns in turn", size_of::<V>());
}

fn main() {
    measure(0_u64);
    measure([0_u8; 48]);
    measure([0_u8; 256]);
}
