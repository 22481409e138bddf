//! Builds the C part of the `dpdk` driver when its feature is enabled.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk();
}

/// Debian's and Ubuntu's `libdpdk-dev`, linked dynamically: DPDK finds its drivers by itself.
#[cfg(feature = "dpdk")]
fn dpdk() {
    println!("cargo:rerun-if-changed=src/dpdk");
    let requested = std::process::Command::new("pkg-config")
        .args(["--cflags", "libdpdk >= 22.11"])
        .output()
        .unwrap_or_else(|error| panic!("pkg-config cannot be called: {error}"));
    assert!(
        requested.status.success(),
        "the feature `dpdk` needs DPDK 22.11 or later (Debian package libdpdk-dev): {}",
        String::from_utf8_lossy(&requested.stderr)
    );
    let flags = String::from_utf8_lossy(&requested.stdout).into_owned();
    let mut shim = cc::Build::new();
    shim.files(["src/dpdk/device.c", "src/dpdk/packet.c"]).opt_level(3).warnings(true);
    for flag in flags.split_whitespace() {
        shim.flag(flag);
    }
    shim.compile("stoa_dpdk");
    for library in ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_eal"] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
}
