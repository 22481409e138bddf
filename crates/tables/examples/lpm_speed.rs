//! Speed and memory of the longest-prefix match on a real or synthetic table.
//!
//! `cargo run --release -p stoa-tables --example lpm_speed -- ip4|ip6 FILE|synthetic:N [VALUES]`:
//! FILE has one `prefix/len` per line; routes get VALUES (default 1024) different values.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::Instant;

use stoa_tables::lpm::{Kernel, Key, Lpm, LpmCapacity};

const KEYS: usize = 1 << 20;
const VECTOR: usize = 256;
const RUNS: usize = 15;

/// xorshift64*: the same numbers in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }
}

trait Family: Key + 'static {
    const ZERO: Self;
    fn parse(address: IpAddr) -> Option<Self>;
    /// `host` cut to what `prefix/len` covers.
    fn inside(prefix: Self, len: u8, host: u128) -> Self;
    fn random(random: &mut Random) -> Self;
    fn synthetic(random: &mut Random) -> (Self, u8);
}

impl Family for u32 {
    const ZERO: Self = 0;
    fn parse(address: IpAddr) -> Option<Self> {
        if let IpAddr::V4(address) = address { Some(address.to_bits()) } else { None }
    }
    fn inside(prefix: Self, len: u8, host: u128) -> Self {
        prefix | (host as u32).checked_shr(u32::from(len)).unwrap_or(0)
    }
    fn random(random: &mut Random) -> Self {
        random.next() as u32
    }
    fn synthetic(random: &mut Random) -> (Self, u8) {
        let len = [16, 20, 22, 22, 23, 23, 24, 24, 24, 24, 24, 24][random.below(12)];
        let address = 1 << 24 | random.below(223 << 24) as u32;
        (address >> (32 - len) << (32 - len), len)
    }
}

impl Family for u128 {
    const ZERO: Self = 0;
    fn parse(address: IpAddr) -> Option<Self> {
        if let IpAddr::V6(address) = address { Some(address.to_bits()) } else { None }
    }
    fn inside(prefix: Self, len: u8, host: u128) -> Self {
        prefix | host.checked_shr(u32::from(len)).unwrap_or(0)
    }
    fn random(random: &mut Random) -> Self {
        1 << 125 | (u128::from(random.next()) << 64 | u128::from(random.next())) >> 3
    }
    fn synthetic(random: &mut Random) -> (Self, u8) {
        let len = [29, 32, 32, 36, 40, 44, 46, 48, 48, 48, 48, 48][random.below(12)];
        // 64 Ki allocations of /32, as registries give them.
        let block = 0x2a00_0000 + random.below(1 << 16) as u128 * 8;
        let address = block << 96 | (u128::from(random.next()) << 32);
        (address >> (128 - len) << (128 - len), len)
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [family, source, rest @ ..] = &arguments[..] else {
        eprintln!("usage: lpm_speed ip4|ip6 FILE|synthetic:N [VALUES]");
        std::process::exit(2);
    };
    let values = rest.first().map_or(1024, |text| text.parse().expect("VALUES is a number"));
    match family.as_str() {
        "ip4" => run::<u32>(source, values),
        "ip6" => run::<u128>(source, values),
        other => eprintln!("no family {other}: ip4 or ip6"),
    }
}

fn read<K: Family>(source: &str) -> Vec<(K, u8)> {
    let mut random = Random(0x1234_5678);
    if let Some(count) = source.strip_prefix("synthetic:") {
        let count: usize = count.parse().expect("synthetic:N");
        let mut routes = std::collections::HashSet::new();
        while routes.len() < count {
            routes.insert(K::synthetic(&mut random));
        }
        return routes.into_iter().collect();
    }
    let text = std::fs::read_to_string(source).expect("a readable FILE");
    let route = |line: &str| {
        let (address, len) = line.trim().split_once('/')?;
        Some((K::parse(address.parse().ok()?)?, len.parse().ok()?))
    };
    text.lines().filter_map(route).collect()
}

fn run<K: Family>(source: &str, values: usize) {
    let mut routes: Vec<(K, u8, u32)> = Vec::new();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (prefix, len) in read::<K>(source) {
        routes.push((prefix, len, 1 + random.below(values) as u32));
    }
    let mut lpm = Lpm::<K>::new(LpmCapacity::for_routes(routes.len() + 1024)).expect("memory");
    routes.sort_unstable();
    report("build, sorted", routes.len(), || {
        for &(prefix, len, value) in &routes {
            lpm.insert(prefix, len, value).expect("room");
        }
    });
    for at in (1..routes.len()).rev() {
        routes.swap(at, random.below(at + 1));
    }
    report("remove, random order", routes.len(), || {
        for &(prefix, len, _) in &routes {
            lpm.remove(prefix, len).expect("present");
        }
    });
    report("insert, random order", routes.len(), || {
        for &(prefix, len, value) in &routes {
            lpm.insert(prefix, len, value).expect("room");
        }
    });
    let memory = lpm.memory();
    let per_route = |bytes: usize| bytes as f64 / routes.len() as f64;
    println!("routes {}  values {values}", lpm.len());
    println!(
        "bytes per route: look-up {:.2}, bookkeeping {:.2}; look-up words used {}",
        per_route(memory.lookup_bytes),
        per_route(memory.bookkeeping_bytes),
        lpm.lookup_words_used()
    );
    churn(&mut lpm, &routes, &mut random);
    for (name, keys) in [
        ("random keys", (0..KEYS).map(|_| K::random(&mut random)).collect::<Vec<_>>()),
        (
            "in-table keys",
            (0..KEYS)
                .map(|_| {
                    let (prefix, len, _) = routes[random.below(routes.len())];
                    K::inside(prefix, len, u128::from(random.next()) << 64)
                })
                .collect(),
        ),
    ] {
        for kernel in [Kernel::Scalar, Kernel::Bits, Kernel::Avx512] {
            measure(&lpm, name, kernel, &keys);
        }
    }
}

/// Seconds that this thread was on a processor: on a busy machine the clock tells of others.
fn on_cpu() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? / 1e9)
}

fn report(name: &str, count: usize, work: impl FnOnce()) {
    let (start, begin) = (Instant::now(), on_cpu());
    work();
    let elapsed = start.elapsed().as_secs_f64();
    let seconds = on_cpu().zip(begin).map_or(elapsed, |(now, then)| now - then);
    println!(
        "{name}: {seconds:.3} s on the processor ({elapsed:.3} s in all), {:.6} M/s",
        count as f64 / seconds / 1e6
    );
}

/// Changes while a reader exists: every freed chunk waits for its epoch.
fn churn<K: Family>(lpm: &mut Lpm<K>, routes: &[(K, u8, u32)], random: &mut Random) {
    use stoa_tables::Reclaim;
    let reader = lpm.reader();
    let changes = routes.len().min(200_000);
    report("remove and insert, with a reader", 2 * changes, || {
        for epoch in 0..changes {
            let (prefix, len, value) = routes[random.below(routes.len())];
            lpm.remove(prefix, len).expect("present");
            lpm.insert(prefix, len, value).expect("room");
            if epoch % 64 == 0 {
                lpm.retire_mark(epoch as u64);
                lpm.reclaim(epoch as u64);
            }
        }
    });
    report("replace value, with a reader", changes, || {
        for _ in 0..changes {
            let (prefix, len, value) = routes[random.below(routes.len())];
            lpm.insert(prefix, len, value ^ 0x10_0000).expect("room");
        }
    });
    report("default route, changed", 20, || {
        for value in 1..=20 {
            lpm.insert(K::ZERO, 0, value).expect("room");
            lpm.retire_mark(u64::from(value) + changes as u64);
            lpm.reclaim(u64::from(value) + changes as u64);
        }
    });
    lpm.remove(K::ZERO, 0).expect("present");
    drop(reader);
    for &(prefix, len, value) in routes {
        lpm.insert(prefix, len, value).expect("room");
    }
}

fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: reading the time-stamp counter has no effect on memory.
        #[allow(unsafe_code)]
        unsafe {
            core::arch::x86_64::_rdtsc()
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

fn measure<K: Family>(lpm: &Lpm<K>, name: &str, kernel: Kernel, keys: &[K]) {
    let Some(reader) = lpm.reader().with_kernel(kernel) else { return };
    let mut out = [0u32; VECTOR];
    let (mut best_cycles, mut best_seconds) = (u64::MAX, f64::MAX);
    for _ in 0..RUNS {
        let (start, begin) = (Instant::now(), ticks());
        for vector in keys.chunks_exact(VECTOR) {
            reader.lookup_batch(black_box(vector), &mut out);
            black_box(&out);
        }
        best_cycles = best_cycles.min(ticks() - begin);
        best_seconds = best_seconds.min(start.elapsed().as_secs_f64());
    }
    println!(
        "{name}, {kernel:?}: {:.1} Mlookups/s, {:.1} cycles per look-up",
        keys.len() as f64 / best_seconds / 1e6,
        best_cycles as f64 / keys.len() as f64,
    );
}
