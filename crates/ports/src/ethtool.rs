//! Properties and settings of a network device's driver by `SIOCETHTOOL`: its name, its
//! queues, and whether it takes VLAN tags off (linux/ethtool.h).

use std::io::Result;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::netdevice::{check, request};

/// `ETHTOOL_GLINK`.
const GET_LINK: u32 = 0x0a;
/// `ETHTOOL_GDRVINFO`.
const GET_DRIVER: u32 = 0x03;
/// `ETHTOOL_GCHANNELS`.
const GET_CHANNELS: u32 = 0x3c;
/// `ETHTOOL_GFLAGS`.
const GET_FLAGS: u32 = 0x25;
/// `ETHTOOL_SFLAGS`.
const SET_FLAGS: u32 = 0x26;
/// `ETH_FLAG_RXVLAN`: the device strips tags and passes them beside the frame.
const STRIP_TAGS: u32 = 1 << 8;

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    rom: [u8; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

const _: () = assert!(size_of::<DriverInfo>() == 196);
const _: () = assert!(size_of::<Channels>() == 36);

/// The driver of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Driver {
    /// As `ethtool -i` shows it.
    pub name: String,
    /// No hardware: what is sent goes to Linux itself, which leaves checksums and the cutting
    /// of super-frames undone.
    pub is_virtual: bool,
}

/// Queries `what`, whose first word is the command, of the device `name` in the namespace of `watch`.
fn query<T>(watch: &OwnedFd, name: &str, what: &mut T) -> Result<()> {
    let mut request = request(name);
    request.ifr_ifru.ifru_data = (&raw mut *what).cast();
    // SAFETY: SIOCETHTOOL takes an ifreq whose data points to the struct that its first word
    // names; `T` is that struct and lives through the call.
    check(unsafe { libc::ioctl(watch.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) })?;
    Ok(())
}

/// The driver of the device; a device without a driver name counts as virtual.
pub(crate) fn driver(watch: &OwnedFd, name: &str) -> Driver {
    // SAFETY: all-zero is a valid DriverInfo.
    let mut info: DriverInfo = unsafe { std::mem::zeroed() };
    info.command = GET_DRIVER;
    if query(watch, name, &mut info).is_err() {
        return Driver { name: "unknown".into(), is_virtual: true };
    }
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    let (name, bus) = (text(&info.driver), text(&info.bus));
    // TAP devices report "tap" or "tun" here, hardware its bus address.
    let is_virtual = !bus.contains(':') && !bus.contains('.') && !bus.starts_with("virtio");
    Driver { name, is_virtual }
}

/// Makes Linux report the device's carrier at once. Otherwise it reports at most one change a second, and
/// routing daemons would learn of a lost link that late; a query must return the present state.
///
/// # Errors
/// The device is gone.
pub(crate) fn tell_link(watch: &OwnedFd, name: &str) -> Result<()> {
    query(watch, name, &mut Value { command: GET_LINK, data: 0 })
}

/// Receive queues that the device uses now, at least one.
pub(crate) fn receive_queues(watch: &OwnedFd, name: &str) -> u32 {
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    match query(watch, name, &mut channels) {
        Ok(()) => (channels.combined + channels.rx).max(1),
        Err(_) => 1,
    }
}

/// Makes the device leave tags in frames, or take them off again; whether that is a change.
pub(crate) fn keep_tags(watch: &OwnedFd, name: &str, keep: bool) -> Result<bool> {
    let mut flags = Value { command: GET_FLAGS, data: 0 };
    query(watch, name, &mut flags)?;
    if (flags.data & STRIP_TAGS == 0) == keep {
        return Ok(false);
    }
    let data = flags.data ^ STRIP_TAGS;
    query(watch, name, &mut Value { command: SET_FLAGS, data })?;
    Ok(true)
}
