//! Interfaces and workers of the contract, checked.

use stoa_api::v1;
use stoa_engine::pool::HugePages;
use stoa_engine::worker::Polling;

use super::advertising::{advertisement, discovery};
use super::change::{DesiredChange, add_once};
use super::held::Held;
use super::login::login;
use super::virtual_router::virtual_routers;
use super::{BUFFERS, Family, HostInterface, Interface, ValidationErrors, Workers, address, bits};
use crate::kernel::Kernel;

impl DesiredChange {
    pub(super) fn add_interface(
        &mut self,
        interface: &v1::Interface,
        errors: &mut ValidationErrors,
    ) {
        let path = format!("interface {:?}", interface.name);
        let mac = match interface.mac.as_slice() {
            [] => None,
            &[a, b, c, d, e, f] if a & 1 == 0 => Some([a, b, c, d, e, f]),
            _ => {
                let cause = format!("has the MAC address {:02x?}, not unicast", interface.mac);
                errors.add(path.clone(), cause, "Use six bytes, the first of them even.");
                None
            }
        };
        let tags: Vec<_> = [&interface.outer, &interface.inner].into_iter().flatten().collect();
        for tag in &tags {
            let checked = matches!(tag.tpid, 0x8100 | 0x88a8);
            if !checked || !(1..=4094).contains(&tag.vid) {
                let cause = format!("has the VLAN tag {:#06x}/{}", tag.tpid, tag.vid);
                errors.add(
                    path.clone(),
                    cause,
                    "Use 0x8100 or 0x88a8 and a VLAN id from 1 to 4094.",
                );
            }
        }
        let checked = Interface {
            parent: (!interface.parent.is_empty()).then(|| interface.parent.clone()),
            tags: tags.iter().map(|tag| (tag.tpid as u16, tag.vid as u16)).collect(),
            enabled: interface.enabled,
            mac,
            ip4: family(interface.ip4.as_ref(), true, &path, errors),
            ip6: family(interface.ip6.as_ref(), false, &path, errors),
            vrf: interface.vrf.clone(),
            host_interface: interface.host_interface.as_ref().map(|host_interface| HostInterface {
                netns: host_interface.netns.clone(),
                device: host_interface.device.clone(),
            }),
            cross_connect: (!interface.cross_connect.is_empty())
                .then(|| interface.cross_connect.clone()),
            noop: false,
            flow_hash: false,
            noop_ethernet: false,
            noop_local: false,
            noop_output: false,
            noop_port: false,
            bfd: super::bfd::sessions(&interface.bfd, &path, errors),
            plugins: super::plugin::settings(&interface.plugins, &path, errors),
            acls: interface.acls.as_ref().map(Into::into).unwrap_or_default(),
            zone: interface.zone.clone(),
            zone_syn_cookies: interface.zone_syn_cookies,
            login: interface.login.as_ref().and_then(|it| login(it, &path, errors)),
        };
        let object = (interface.name.clone(), Some(checked));
        let fix = "Give each interface a unique name.";
        add_once(&mut self.interfaces, object, || path.clone(), fix, errors);
    }
}

impl Held {
    /// Checks VRF, parent, tags and host interface of an interface.
    pub(super) fn check_interface(
        &self,
        (name, interface): (&String, &Interface),
        is_first: &dyn Fn(&String, &String) -> bool,
        errors: &mut ValidationErrors,
    ) {
        let (desired, references) = (self.desired(), self.references());
        let mut add = |cause: String, fix| errors.add(format!("interface {name:?}"), cause, fix);
        if !interface.vrf.is_empty() && !desired.vrfs.contains_key(&interface.vrf) {
            let cause = format!("is in the VRF {:?}, which does not exist", interface.vrf);
            add(cause, "Use an existing VRF.");
        }
        match &interface.parent {
            None if !interface.tags.is_empty() => {
                add("has VLAN tags but no parent".into(), "Set the parent, or remove the tags.");
            }
            None if !desired.ports.contains_key(name) => {
                let fix = "Add a port, or make it a sub-interface.";
                add("has neither a port nor a parent".into(), fix);
            }
            None => {}
            Some(parent) if !desired.ports.contains_key(parent) => {
                let cause = format!("has the parent {parent:?}, which is not a port");
                add(cause, "Use an interface that has a port.");
            }
            Some(_) if interface.tags.is_empty() => {
                add("has a parent but no VLAN tag".into(), "Set an outer tag.");
            }
            Some(parent) => {
                let other = references.with_tags((name, parent), &interface.tags);
                if let Some(other) = other.filter(|other| !is_first(name, other)) {
                    let cause = format!("has the same tags as {other:?} on {parent:?}");
                    add(cause, "Give each sub-interface unique tags.");
                }
            }
        }
        let Some(host_interface) = &interface.host_interface else { return };
        if host_interface.device.is_empty() {
            add("has a host interface without a device".into(), "Set the device.");
            return;
        }
        let other = references.with_device(name, host_interface);
        if let Some(other) = other.filter(|other| !is_first(name, other)) {
            let cause = format!("has the same host interface device as {other:?}");
            add(cause, "Give each host interface its own device.");
        }
    }
}

pub(super) fn workers(workers: Option<&v1::Workers>, errors: &mut ValidationErrors) -> Workers {
    let Some(config) = workers else { return Workers::default() };
    let path = || "workers".to_owned();
    let kernel = Kernel::choose(&config.kernel).unwrap_or_else(|error| {
        errors.add(path(), error.to_string(), "Remove the setting to use the best kernel.");
        Kernel::Scalar
    });
    let cpus: Vec<usize> = config.cpus.iter().map(|cpu| *cpu as usize).collect();
    let count = config.count.max(1) as usize;
    if count > 64 || (!cpus.is_empty() && cpus.len() != count) {
        let cause = format!("{count} workers on {} CPUs", cpus.len());
        errors.add(
            path(),
            cause,
            "Use 1 to 64 workers, and either no CPUs or one for each worker.",
        );
    }
    Workers {
        count,
        cpus,
        polling: match config.polling() {
            v1::Polling::Adaptive => Polling::Adaptive,
            v1::Polling::Polling => Polling::Always,
            v1::Polling::Interrupt => Polling::Interrupt,
        },
        buffers: if config.buffers == 0 { BUFFERS } else { config.buffers },
        huge_pages: match config.huge_pages() {
            v1::HugePages::IfAvailable => HugePages::IfAvailable,
            v1::HugePages::Never => HugePages::Never,
            v1::HugePages::Required => HugePages::Required,
        },
        kernel,
    }
}

fn family(
    family: Option<&v1::Family>,
    is_ip4: bool,
    path: &str,
    errors: &mut ValidationErrors,
) -> Family {
    let Some(config) = family else { return Family::default() };
    let mut addresses = Vec::new();
    for config in &config.addresses {
        let ip = address(&config.address).filter(|ip| ip.is_ipv4() == is_ip4);
        match ip {
            Some(ip) if config.prefix_length <= bits(ip).into() => {
                addresses.push((ip, config.prefix_length as u8));
            }
            _ => errors.add(
                path.to_owned(),
                "has an address of another family or with an invalid prefix length",
                "Use 4 or 16 bytes and a prefix length that fits.",
            ),
        }
    }
    Family {
        enabled: config.enabled,
        forwarding: config.forwarding,
        mtu: config.mtu.min(u16::MAX.into()) as u16,
        addresses,
        reverse_path: config.reverse_path as u32 & 3,
        options: config.options.unwrap_or_default(),
        neighbor_limit: config.neighbor_limit,
        proxy: config.proxy && is_ip4,
        duplicate_detection: config.duplicate_detection.min(u8::MAX.into()) as u8,
        advertisement: config
            .advertising
            .as_ref()
            .filter(|_| !is_ip4)
            .map(|config| advertisement(config, path, errors)),
        virtual_routers: virtual_routers(&config.virtual_routers, is_ip4, path, errors),
        discovery: config
            .discovery
            .as_ref()
            .filter(|_| is_ip4)
            .map(|config| discovery(config, path, errors)),
    }
}
