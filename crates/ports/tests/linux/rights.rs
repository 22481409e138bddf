//! The errors for a user without the capabilities.

use stoa_engine::Pool;
use stoa_engine::pool::HugePages;
use stoa_ports::{AfPacketConfig, AfXdpConfig, OpenError, PortConfig, TapConfig};

use crate::side::{Side, join, namespaces};

/// Leaves the thread that calls it these rights only, one bit each.
fn keep_rights(kept: u64) {
    // struct __user_cap_header_struct: version 3, this thread; then effective, permitted and
    // inheritable, the lower half and the upper one.
    let header = [0x2008_0522u32, 0];
    let [low, high] = [kept as u32, (kept >> 32) as u32];
    let sets = [low, low, 0, high, high, 0];
    // SAFETY: both arrays live through the call and are as long as version 3 has them.
    let done = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Opens a port on a thread that has these rights only.
fn open_with_rights(kept: u64, config: &PortConfig) -> OpenError {
    let pool = Pool::leak(512, HugePages::Never).expect("memory");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            keep_rights(kept);
            stoa_ports::open(config, pool).err().expect("refused")
        });
        thread.join().expect("no panic")
    })
}

/// Opens a port on a thread that has no rights.
fn open_without_rights(config: &PortConfig) -> OpenError {
    open_with_rights(0, config)
}

#[test]
fn the_missing_right_is_named() {
    let device = AfPacketConfig { device: "eth0".into(), ..AfPacketConfig::default() };
    let error = open_without_rights(&PortConfig::AfPacket(device));
    assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
    let device = AfXdpConfig { device: "eth0".into(), ..AfXdpConfig::default() };
    let error = open_without_rights(&PortConfig::AfXdp(device));
    let reason = error.to_string();
    assert!(reason.contains("CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF are missing"), "{reason}");
    let device = TapConfig { device: "stoa-test-tap".into(), ..TapConfig::default() };
    let error = open_without_rights(&PortConfig::Tap(device));
    let there = std::path::Path::new("/dev/net/tun").exists();
    assert!(error.to_string().contains("CAP_NET_ADMIN") || !there, "{error}");
}

#[test]
fn the_right_to_enter_a_namespace_is_named() {
    let here = Some("/proc/self/ns/net".to_owned());
    let device = AfPacketConfig { device: "eth0".into(), netns: here, ..Default::default() };
    let error = open_without_rights(&PortConfig::AfPacket(device));
    assert!(error.to_string().contains("CAP_SYS_ADMIN"), "{error}");
}

#[test]
fn each_right_for_af_xdp_is_named_alone() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED each_right_for_af_xdp_is_named_alone: root alone has them all");
        return;
    }
    let (admin, raw, bpf) = (1 << 12, 1 << 13, 1 << 39);
    let device = AfXdpConfig { device: "eth0".into(), ..AfXdpConfig::default() };
    let config = PortConfig::AfXdp(device);
    for (kept, missing) in [
        (admin | raw, "CAP_BPF is missing"),
        (raw | bpf, "CAP_NET_ADMIN is missing"),
        (admin | bpf, "CAP_NET_RAW is missing"),
    ] {
        let error = open_with_rights(kept, &config);
        assert!(matches!(error, OpenError::Rights { .. }), "{error:?}");
        assert!(error.to_string().contains(missing), "{missing}: {error}");
    }
}

/// The thread of a forwarder that opens devices has no more than these.
#[test]
fn three_rights_are_enough_for_af_xdp() {
    let Some(spaces) = namespaces("three_rights_are_enough_for_af_xdp") else { return };
    join(&spaces);
    let detail = |kept: u64| {
        let detail = spaces[0].enter(|| {
            keep_rights(kept);
            let device = AfXdpConfig { device: "near0".into(), ..AfXdpConfig::default() };
            Side::open(&PortConfig::AfXdp(device)).port.detail()
        });
        detail.expect("in the namespace")
    };
    let (admin, raw, bpf) = (1 << 12, 1 << 13, 1 << 39);
    let (sys_admin, perfmon) = (1 << 21, 1 << 38);
    let few = detail(admin | raw | bpf);
    assert_eq!(few, detail(admin | raw | bpf | sys_admin | perfmon), "nothing is missing");
}
