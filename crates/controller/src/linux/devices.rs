//! Devices of one network namespace by index: which of them is the host interface of which interface.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::NamespaceContext;
use super::message::{Link, Messages, kind};
use super::socket::{Socket, group, is_lost};
use crate::config::Interfaces;

/// Receive buffer for link notifications, bytes.
const RECEIVE_BUFFER: usize = 1 << 20;
/// Maximum cached devices; beyond it the cache is cleared.
const CACHE_LIMIT: usize = 65_536;

/// The devices of a namespace.
#[derive(Debug)]
pub struct Devices {
    context: NamespaceContext,
    notifications: Socket,
    requests: Socket,
    /// Cached interface of each device; `None`: not one of our host interfaces.
    cache: HashMap<u32, Option<Arc<str>>>,
    /// Names of the interfaces with host interfaces, by device name.
    host_interfaces: HashMap<String, Arc<str>>,
}

impl Devices {
    /// Opens sockets in the namespace of a route source.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn open(context: NamespaceContext) -> io::Result<Devices> {
        let notifications = Socket::open(&context.netns, group::LINKS, RECEIVE_BUFFER)?;
        let requests = Socket::open(&context.netns, 0, RECEIVE_BUFFER)?;
        let mut devices = Devices {
            context,
            notifications,
            requests,
            cache: HashMap::new(),
            host_interfaces: HashMap::new(),
        };
        devices.reconfigure();
        Ok(devices)
    }

    /// Reads the configuration in force; returns whether the host interfaces of the namespace have changed.
    pub fn reconfigure(&mut self) -> bool {
        let netns = &self.context.netns;
        let host_interfaces = self.context.connection.with_configuration(|configuration| {
            configuration.map(|it| host_interfaces(&it.interfaces, netns)).unwrap_or_default()
        });
        let is_changed = host_interfaces != self.host_interfaces;
        if is_changed {
            self.host_interfaces = host_interfaces;
            self.cache.clear();
        }
        is_changed
    }

    /// The interface whose host interface has this index.
    pub fn interface(&mut self, device: u32) -> Option<Arc<str>> {
        if let Some(cache) = self.cache.get(&device) {
            return cache.clone();
        }
        let found = self.query(device);
        if self.cache.len() >= CACHE_LIMIT {
            self.cache.clear();
        }
        self.cache.insert(device, found.clone());
        found
    }

    fn query(&mut self, device: u32) -> Option<Arc<str>> {
        let mut body = [0; 16];
        body[4..8].copy_from_slice(&device.to_ne_bytes());
        let (alias, host_interfaces) = (&self.context.alias, &self.host_interfaces);
        let mut found = None;
        let result = self.requests.get(kind::GET_LINK, &body, |message| {
            if let Ok(link) = Link::read(message.body)
                && link.alias == alias
            {
                found = host_interfaces.get(link.name).cloned();
            }
        });
        // ENODEV: the device was removed meanwhile.
        result.ok().and(found)
    }

    /// Waits until devices change, and removes them from the cache. Returns whether a device may have become
    /// a host interface, or routes may have disappeared with a device.
    ///
    /// # Errors
    /// When the kernel can no longer be queried.
    /// When the kernel cannot be asked any more.
    pub async fn changed(&mut self) -> io::Result<Changed> {
        let mut buffer = [0; 16 << 10];
        let read = self.notifications.receive(&mut buffer).await;
        self.process(read, &buffer)
    }

    /// As [`Devices::changed`], without waiting.
    ///
    /// # Errors
    /// See [`Devices::changed`].
    pub fn changed_now(&mut self) -> io::Result<Changed> {
        let mut buffer = [0; 16 << 10];
        let mut all = Changed::default();
        loop {
            let read = self.notifications.receive_now(&mut buffer);
            if matches!(read, Ok(0)) {
                return Ok(all);
            }
            let changed = self.process(read, &buffer)?;
            all.is_new_host_interface |= changed.is_new_host_interface;
            all.any |= changed.any;
        }
    }

    fn process(&mut self, read: io::Result<usize>, buffer: &[u8]) -> io::Result<Changed> {
        let length = match read {
            Ok(length) => length,
            // Notifications were lost: check all devices.
            Err(error) if is_lost(&error) => {
                let previous = std::mem::take(&mut self.cache);
                let mut is_new_host_interface = false;
                for (device, interface) in previous {
                    is_new_host_interface |= self.interface(device) != interface;
                }
                return Ok(Changed { is_new_host_interface, any: true });
            }
            Err(error) => return Err(error),
        };
        let mut changed = Changed { is_new_host_interface: false, any: true };
        for message in Messages::of(&buffer[..length]).map_while(Result::ok) {
            if let Ok(link) = Link::read(message.body)
                && let Some(previous) = self.cache.remove(&link.index)
            {
                changed.is_new_host_interface |=
                    previous.is_none() && self.interface(link.index).is_some();
            }
        }
        Ok(changed)
    }
}

/// How the devices changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// A cached device has become a host interface: routes that were not imported because of it may be now.
    pub is_new_host_interface: bool,
    /// Some device was added, removed or changed.
    pub any: bool,
}

/// The interfaces with a host interface in a namespace, by device name.
pub fn host_interfaces(interfaces: &Interfaces, netns: &str) -> HashMap<String, Arc<str>> {
    let named = interfaces.iter().filter_map(|interface| {
        let host_interface = interface
            .host_interface
            .as_ref()
            .filter(|host_interface| host_interface.netns == netns)?;
        Some((host_interface.device.clone(), Arc::from(interface.name.as_str())))
    });
    named.collect()
}
