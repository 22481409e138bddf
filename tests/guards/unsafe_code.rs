//! `unsafe` is only in the named files of the workspace.

use std::path::{Path, PathBuf};

use crate::{read, root, sources};

/// Files that may contain `unsafe`, by crate and the end of their path. All other crates forbid it.
const ALLOWED: [(&str, &[&str]); 10] = [
    // A call of the C library, and one of libyang.
    ("yang", &["src/memory.rs", "src/references.rs"]),
    // An option of sockets that nix has not.
    ("controller", &["src/linux/saved_syn.rs"]),
    ("lab", &["src/bpf.rs", "src/rare_calls.rs"]),
    ("tables", &["kernel.rs"]),
    (
        "crypto",
        &[
            // Vector kernels; CBC of aws-lc, and the memory of its keys; the C of ipsec-mb; the time-stamp counter.
            "avx2.rs",
            "avx512.rs",
            "src/aws_lc/aes.rs",
            "src/ipsec_mb/mod.rs",
            "src/ipsec_mb/shim.rs",
            "examples/cycles.rs",
        ],
    ),
    // Vector kernels, `NODE_avx2.rs` and `NODE_avx512.rs`; the allocator of a test.
    ("forwarder", &["avx2.rs", "avx512.rs", "tests/scenarios/harness/allocations.rs"]),
    (
        "engine",
        &[
            // Packet memory and its pool.
            "src/heap.rs",
            "src/numa.rs",
            "src/pool/cache.rs",
            "src/pool/memory.rs",
            "src/pool/mod.rs",
            // Packets and vectors without bounds checks.
            "src/column.rs",
            "src/gather.rs",
            "src/output/tests.rs",
            "src/packet.rs",
            "src/vector.rs",
            "src/vector/lanes.rs",
            "src/vector/frames.rs",
            "src/vector/frames_avx512.rs",
            "src/vector/lanes_avx2.rs",
            "src/vector/lanes_avx512.rs",
            "src/vector/lend.rs",
            "src/vector/split.rs",
            "src/worker/main_loop.rs",
            "src/worker/urgency.rs",
            // The time-stamp counter, and memory that readers may still access.
            "src/clock.rs",
            "src/quiescence.rs",
            "src/quiescence/slots.rs",
        ],
    ),
    (
        "memif",
        &[
            // Memory shared with a peer, descriptors from a socket, eventfds.
            "src/cursor.rs",
            "src/doorbell.rs",
            "src/fuzzing.rs",
            "src/listener.rs",
            "src/region.rs",
            "src/ring.rs",
            "src/rx.rs",
            "src/socket.rs",
            "src/tests/mod.rs",
            "src/tests/sockets.rs",
            "src/tx.rs",
        ],
    ),
    // Mapped memory, and descriptors from a socket or from systemd.
    ("warm-restart", &["src/holder.rs", "src/mapping.rs", "src/message.rs"]),
    (
        "ports",
        &[
            // System calls, rings shared with the kernel, and the C of DPDK.
            "src/af_packet/ring.rs",
            "src/af_packet/sys.rs",
            "src/af_packet/tx.rs",
            "src/af_xdp/bpf.rs",
            "src/af_xdp/rights.rs",
            "src/af_xdp/ring.rs",
            "src/af_xdp/rx.rs",
            "src/af_xdp/socket.rs",
            "src/af_xdp/tx.rs",
            "src/device_opener/channel.rs",
            "src/dpdk/device.rs",
            "src/dpdk/eal.rs",
            "src/dpdk/mempool.rs",
            "src/dpdk/queue.rs",
            "src/dpdk/shim.rs",
            "src/ethtool.rs",
            "src/link.rs",
            "src/netdevice.rs",
            "src/netns.rs",
            "src/tap/sys.rs",
            "tests/harness/testpmd.rs",
            "tests/linux/offload.rs",
            "tests/linux/peer.rs",
            "tests/linux/rights.rs",
        ],
    ),
];

/// The workspace's packages by name, each with its folder.
fn packages() -> Vec<(String, PathBuf)> {
    let crates = std::fs::read_dir(root().join("crates")).expect("the folder of crates").flatten();
    let mut all: Vec<(String, PathBuf)> = crates
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .filter(|(_, folder)| folder.join("Cargo.toml").exists())
        .collect();
    assert!(all.len() > 10, "the crates are found");
    all.push(("tests".to_owned(), root().join("tests")));
    all
}

/// Whether a line of code, not of a comment, contains `unsafe`.
fn has_unsafe(text: &str) -> bool {
    let words = ["{", "fn", "impl", "extern", "trait"].map(|word| ["unsafe", word].join(" "));
    let mut code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.any(|line| words.iter().any(|word| line.contains(word)))
}

/// The root file of every program and library of a package, which must have the `forbid`.
fn first_files(folder: &Path) -> Vec<PathBuf> {
    let known =
        ["src/lib.rs", "src/main.rs", "harness/lib.rs", "scenarios/main.rs", "guards/main.rs"];
    known.iter().map(|file| folder.join(file)).filter(|file| file.exists()).collect()
}

#[test]
fn crates_without_unsafe_code_forbid_it() {
    let mut faults = Vec::new();
    for (name, folder) in packages() {
        if ALLOWED.iter().any(|(one, _)| *one == name) {
            continue;
        }
        let first = first_files(&folder);
        assert!(!first.is_empty(), "{name} has a first file");
        let bare = first.iter().filter(|file| !read(file).contains("#![forbid(unsafe_code)]"));
        faults.extend(bare.map(|file| format!("{} lacks #![forbid(unsafe_code)]", file.display())));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Tests and examples are separate programs, to which the `forbid` of the library does not apply.
#[test]
fn unsafe_code_is_in_named_files_only() {
    let mut faults = Vec::new();
    for (name, folder) in packages() {
        let named =
            ALLOWED.iter().find(|(one, _)| *one == name).map_or(&[][..], |(_, files)| *files);
        let mut files = Vec::new();
        sources(&folder, &mut files);
        let mut used = vec![false; named.len()];
        for file in files {
            if !has_unsafe(&read(&file)) {
                continue;
            }
            let path = file.to_string_lossy();
            match named.iter().position(|one| path.ends_with(one)) {
                Some(index) => used[index] = true,
                None => faults.push(format!("{path} has unsafe code but is not named here")),
            }
        }
        let idle = named.iter().zip(used).filter(|(_, used)| !used);
        faults.extend(idle.map(|(one, _)| format!("{name}: {one} has no unsafe code any more")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
