//! The NUMA topology of the machine: which processors and which devices belong to which node. It is read
//! from `/sys`, below a root folder, so that a test can make up a machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use stoa_engine::NumaNode;
use stoa_ports::PortConfig;

/// CPUs of Linux at most: a list that names others is not one of its lists.
const CPUS: usize = 1 << 16;

/// The NUMA nodes of a machine that have processors.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    root: PathBuf,
    cpus: BTreeMap<NumaNode, Vec<usize>>,
}

impl Topology {
    /// Reads the files below `root`: `/` but for tests. What cannot be read is unknown, not an error.
    pub fn read(root: &Path) -> Self {
        let folder = root.join("sys/devices/system/node");
        let node = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.ok()?;
            let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            let list = std::fs::read_to_string(entry.path().join("cpulist")).ok()?;
            // A node without processors has memory only.
            let cpus = Some(cpus_of(&list)).filter(|cpus| !cpus.is_empty())?;
            Some((NumaNode(number), cpus))
        };
        let nodes = std::fs::read_dir(folder).into_iter().flatten();
        Self { root: root.to_owned(), cpus: nodes.filter_map(node).collect() }
    }

    /// Whether it matters where memory lies.
    pub(super) fn has_several_nodes(&self) -> bool {
        self.cpus.len() > 1
    }

    /// The node of a CPU.
    pub(super) fn node_of_cpu(&self, cpu: usize) -> Option<NumaNode> {
        self.cpus.iter().find(|(_, cpus)| cpus.contains(&cpu)).map(|(node, _)| *node)
    }

    /// The node of all CPUs; `None`: there are several, or none is known.
    pub(super) fn only_node(&self) -> Option<NumaNode> {
        self.cpus.keys().next().copied().filter(|_| !self.has_several_nodes())
    }

    /// The node of the device behind a port; `None`: it has no device, or that has no node. Devices in
    /// other network namespaces are not visible here.
    pub(super) fn node_of_port(&self, config: &PortConfig) -> Option<NumaNode> {
        let (device, netns) = match config {
            PortConfig::AfPacket(config) => (&config.device, &config.netns),
            PortConfig::AfXdp(config) => (&config.device, &config.netns),
            PortConfig::Auto(config) => (&config.device, &config.netns),
            PortConfig::Dpdk(config) => {
                let address = config.device.split(',').next().filter(|name| is_name(name))?;
                return self.node_in(&self.root.join("sys/bus/pci/devices").join(address));
            }
            _ => return None,
        };
        if netns.is_some() || !is_name(device) {
            return None;
        }
        let folder = self.root.join("sys/class/net").join(device).join("device");
        // Of a virtio device the bus has the node.
        self.node_in(&folder).or_else(|| self.node_in(&folder.join("..")))
    }

    /// The node that a device's folder names; a device without one has -1.
    fn node_in(&self, folder: &Path) -> Option<NumaNode> {
        let text = std::fs::read_to_string(folder.join("numa_node")).ok()?;
        text.trim().parse().ok().map(NumaNode)
    }
}

/// Whether a device's name is one folder.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && name != "." && name != ".."
}

/// The CPUs in a list such as "0-3,8".
fn cpus_of(list: &str) -> Vec<usize> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let [first, last] = [first, last].map(|number| number.trim().parse::<usize>().ok());
        first.zip(last).filter(|(_, last)| *last < CPUS).map(|(first, last)| first..=last)
    };
    list.trim().split(',').filter_map(part).flatten().collect()
}

#[cfg(test)]
pub(super) mod tests {
    use stoa_ports::{AfPacketConfig, AutoConfig, DpdkConfig, NullConfig};

    use super::*;

    /// A machine with these nodes (their lists of CPUs) and network devices (name and node).
    pub(in crate::control) fn machine(
        nodes: &[&str],
        devices: &[(&str, &str)],
    ) -> (tempfile::TempDir, Topology) {
        let root = tempfile::tempdir().unwrap();
        let write = |path: String, content: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        for (number, list) in nodes.iter().enumerate() {
            write(format!("sys/devices/system/node/node{number}/cpulist"), list);
        }
        for (name, node) in devices {
            let folder = if name.contains(':') { "bus/pci/devices" } else { "class/net" };
            let of_net = if name.contains(':') { "" } else { "/device" };
            write(format!("sys/{folder}/{name}{of_net}/numa_node"), node);
        }
        write("sys/devices/system/node/online".to_owned(), "0-1\n");
        let topology = Topology::read(root.path());
        (root, topology)
    }

    fn auto(device: &str) -> PortConfig {
        PortConfig::Auto(AutoConfig { device: device.into(), ..AutoConfig::default() })
    }

    #[test]
    fn processors_and_devices_have_their_nodes() {
        let devices = [("eth0", "0\n"), ("eth1", "1\n"), ("veth", "-1\n"), ("0000:3b:00.0", "1\n")];
        let (_root, topology) = machine(&["0-3,8\n", "4-7\n"], &devices);
        assert!(topology.has_several_nodes());
        assert_eq!(topology.only_node(), None);
        for (cpu, node) in [(0, Some(0)), (3, Some(0)), (8, Some(0)), (7, Some(1)), (9, None)] {
            assert_eq!(topology.node_of_cpu(cpu), node.map(NumaNode), "CPU {cpu}");
        }
        for (device, node) in [("eth0", Some(0)), ("eth1", Some(1)), ("veth", None), ("x", None)] {
            assert_eq!(topology.node_of_port(&auto(device)), node.map(NumaNode), "{device}");
        }
        let device = "0000:3b:00.0,mprq_en=1".to_owned();
        let card = PortConfig::Dpdk(DpdkConfig { device, ..DpdkConfig::default() });
        assert_eq!(topology.node_of_port(&card), Some(NumaNode(1)));
        let config = AfPacketConfig { device: "eth1".into(), ..AfPacketConfig::default() };
        let elsewhere = AfPacketConfig { netns: Some("lab".into()), ..config.clone() };
        assert_eq!(topology.node_of_port(&PortConfig::AfPacket(config)), Some(NumaNode(1)));
        assert_eq!(topology.node_of_port(&PortConfig::AfPacket(elsewhere)), None);
        assert_eq!(topology.node_of_port(&PortConfig::Null(NullConfig::default())), None);
    }

    #[test]
    fn the_bus_of_a_virtio_device_has_its_node() {
        let (root, _) = machine(&["0\n", "1\n"], &[]);
        let bus = root.path().join("sys/devices/pci0/0000:00:03.0");
        std::fs::create_dir_all(bus.join("virtio0")).unwrap();
        std::fs::write(bus.join("numa_node"), "1\n").unwrap();
        let net = root.path().join("sys/class/net/ens3");
        std::fs::create_dir_all(&net).unwrap();
        std::os::unix::fs::symlink(bus.join("virtio0"), net.join("device")).unwrap();
        assert_eq!(Topology::read(root.path()).node_of_port(&auto("ens3")), Some(NumaNode(1)));
    }

    #[test]
    fn memory_without_processors_is_no_second_node() {
        let (_root, topology) = machine(&["0-1\n", "\n"], &[]);
        assert!(!topology.has_several_nodes());
        assert_eq!(topology.only_node(), Some(NumaNode(0)));
        let (_root, topology) = machine(&[], &[]);
        assert_eq!((topology.only_node(), topology.node_of_cpu(0)), (None, None));
    }

    #[test]
    fn names_that_are_no_names_lead_nowhere() {
        let (_root, topology) = machine(&["0\n", "1\n"], &[("eth0", "1\n")]);
        for device in ["", ".", "..", "../net/eth0", "/eth0"] {
            assert_eq!(topology.node_of_port(&auto(device)), None, "{device}");
        }
        assert!(cpus_of("3-1,x,-,1-99999999999").is_empty());
    }
}
