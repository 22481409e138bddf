//! Builds the C part of the engine `ipsec-mb` when its feature is enabled.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "ipsec-mb")]
    ipsec_mb();
}

/// Debian's and Ubuntu's `libipsec-mb-dev`, which has no file for pkg-config, linked dynamically.
#[cfg(feature = "ipsec-mb")]
fn ipsec_mb() {
    println!("cargo:rerun-if-changed=src/ipsec_mb");
    let mut shim = cc::Build::new();
    shim.file("src/ipsec_mb/shim.c").opt_level(3).warnings(true).extra_warnings(true);
    if let Err(error) = shim.try_compile("stoa_ipsec_mb") {
        panic!(
            "the feature `ipsec-mb` needs intel-ipsec-mb 1.3 or later (Debian package libipsec-mb-dev): {error}"
        );
    }
    println!("cargo:rustc-link-lib=dylib=IPSec_MB");
}
