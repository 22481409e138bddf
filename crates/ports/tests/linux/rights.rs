//! What a user without the rights is told.

use stoa_engine::Pool;
use stoa_engine::pool::HugePages;
use stoa_ports::{AfPacketConfig, AfXdpConfig, OpenError, PortConfig, TapConfig};

/// Takes all rights from the thread that calls it.
fn give_up_rights() {
    // struct __user_cap_header_struct: version 3, this thread; then two empty sets of three.
    let header = [0x2008_0522u32, 0];
    let sets = [0u32; 6];
    // SAFETY: both arrays live through the call and are as long as version 3 has them.
    let done = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Opens a port on a thread that has no rights.
fn open_without_rights(config: &PortConfig) -> OpenError {
    let pool = Pool::leak(512, HugePages::Never).expect("memory");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            give_up_rights();
            stoa_ports::open(config, pool).err().expect("refused")
        });
        thread.join().expect("no panic")
    })
}

#[test]
fn the_missing_right_is_named() {
    let device = AfPacketConfig { device: "eth0".into(), ..AfPacketConfig::default() };
    let error = open_without_rights(&PortConfig::AfPacket(device));
    assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
    let device = AfXdpConfig { device: "eth0".into(), ..AfXdpConfig::default() };
    let error = open_without_rights(&PortConfig::AfXdp(device));
    assert!(error.to_string().contains("CAP_BPF"), "{error}");
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
