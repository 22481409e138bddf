//! Which ports need the same device, socket or file for themselves.

use std::path::Path;

use super::{MemifRole, PortConfig};
use crate::folders::NULL_DEVICE;

impl PortConfig {
    /// Whether both need exclusive use of the same device, socket or file, so that one must be closed first.
    pub fn excludes(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::Memif(one), Self::Memif(other)) => {
                let are_masters = [one.role, other.role] == [MemifRole::Master; 2];
                are_masters && one.id == other.id && is_same_socket(&one.socket, &other.socket)
            }
            (Self::Dpdk(one), Self::Dpdk(other)) => one.name() == other.name(),
            (Self::Pcap(one), Self::Pcap(other)) => {
                matches!((&one.output, &other.output), (Some(one), Some(other))
                    if one != Path::new(NULL_DEVICE) && is_same_file(one, other))
            }
            // A TAP device is there as long as its port.
            (one, Self::Tap(other)) => one.device() == Some((&other.device, &other.netns)),
            _ => false,
        }
    }

    /// The Linux device and its network namespace.
    fn device(&self) -> Option<(&String, &Option<String>)> {
        match self {
            Self::AfPacket(it) => Some((&it.device, &it.netns)),
            Self::AfXdp(it) => Some((&it.device, &it.netns)),
            Self::Auto(it) => Some((&it.device, &it.netns)),
            Self::Tap(it) => Some((&it.device, &it.netns)),
            Self::HostInterface(it) => Some((&it.device, &it.netns)),
            Self::Memif(_)
            | Self::Dpdk(_)
            | Self::Pcap(_)
            | Self::Generator(_)
            | Self::Null(_)
            | Self::Tunnel(_) => None,
        }
    }
}

/// Whether two paths lead to one file. A name without a folder is in the folder of the router, as are all paths that
/// it permits: `out.pcap` may be `/var/lib/stoa/pcap/out.pcap`.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let folder = |path: &Path| path.parent().and_then(|folder| folder.canonicalize().ok());
    let are_elsewhere =
        || matches!((folder(one), folder(other)), (Some(one), Some(other)) if one != other);
    one == other || one.file_name() == other.file_name() && !are_elsewhere()
}

/// As [`is_same_file`]; an abstract name is not a file.
fn is_same_socket(one: &str, other: &str) -> bool {
    let are_files = !one.starts_with('@') && !other.starts_with('@');
    one == other || are_files && is_same_file(Path::new(one), Path::new(other))
}
