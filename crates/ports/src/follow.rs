//! Follows a network device by its name: down, up, renamed, deleted, made anew, and its
//! namespace deleted and made anew. It also holds the retry interval.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::device_lock::{self, DeviceLock};
use crate::device_opener;
use crate::error::OpenError;
use crate::netdevice::{self, Device, system};
use crate::netns::Namespace;

/// How often the follower checks for a namespace that is gone.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The first wait after a failure.
const FIRST: Duration = Duration::from_millis(100);
/// The longest wait after a failure.
const LONGEST: Duration = Duration::from_secs(5);

/// A device's name, and the namespace that contains it.
pub(crate) struct Follower {
    name: String,
    netns: Option<String>,
    /// Queries the device and receives its changes; `None`: its namespace is gone.
    ///
    /// A socket keeps its namespace alive, so the follower closes it when the name is gone.
    watch: Option<OwnedFd>,
    /// Reserves the device for this router; released together with `watch`.
    device_lock: Option<Arc<DeviceLock>>,
    /// Why the device could not be locked in an existing namespace.
    refused: Option<String>,
    /// The namespace that `watch` is in.
    home: Option<Namespace>,
    last_check: Instant,
}

impl Follower {
    /// Follows the Ethernet device `name` of the namespace `home`.
    ///
    /// # Errors
    /// The namespace is gone; no such device; the device is no Ethernet device.
    pub fn new(name: &str, home: Namespace) -> Result<(Self, Device), OpenError> {
        netdevice::check_name(name)?;
        let watch = device_opener::watch(&home)?.map_err(system("watch network devices"))?;
        let device = netdevice::device(&watch, name).map_err(system("query a network device"))?;
        let netns = home.named().map(|(netns, _)| netns.to_owned());
        let Some(device) = device else {
            return Err(OpenError::NoDevice { device: name.to_owned(), netns });
        };
        if !device.ethernet {
            let reason = format!("{name} is not an Ethernet device: choose one that is");
            return Err(OpenError::Config { field: "device", reason });
        }
        let device_lock = Some(device_lock::take(&home, name)?);
        let (name, last_check) = (name.to_owned(), Instant::now());
        let (watch, refused, home) = (Some(watch), None, Some(home));
        Ok((Self { name, netns, watch, device_lock, refused, home, last_check }, device))
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device's namespace.
    ///
    /// # Errors
    /// It is gone.
    pub fn home(&self) -> Result<&Namespace, OpenError> {
        let gone = || OpenError::NoNamespace { netns: self.netns.clone().unwrap_or_default() };
        self.home.as_ref().ok_or_else(gone)
    }

    /// The namespace as text: ` in blue`.
    pub fn place(&self) -> String {
        self.netns.as_ref().map(|name| format!(" in {name}")).unwrap_or_default()
    }

    /// The netlink socket of the device's namespace.
    pub fn watch(&self) -> Option<&OwnedFd> {
        self.watch.as_ref()
    }

    /// Descriptors that become readable when a device changes.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.watch.iter().map(|watch| watch.as_fd()).collect()
    }

    /// Queries the device's present state.
    pub fn refresh(&mut self) -> Option<Device> {
        if self.home.as_ref().is_some_and(|home| !home.is_current()) {
            (self.watch, self.device_lock, self.home) = (None, None, None);
        }
        if self.watch.is_none() && self.last_check.elapsed() >= CHECK_INTERVAL {
            self.last_check = Instant::now();
            self.refused = None;
            match self.enter() {
                Ok((watch, device_lock, home)) => {
                    (self.watch, self.device_lock, self.home) =
                        (Some(watch), Some(device_lock), Some(home));
                }
                Err(OpenError::NoNamespace { .. }) => {}
                Err(error) => self.refused = Some(error.to_string()),
            }
        }
        let watch = self.watch.as_ref()?;
        netdevice::hush(watch);
        netdevice::device(watch, &self.name).ok()?.filter(|device| device.ethernet)
    }

    /// Watches devices in the namespace that has the name now, and locks ours.
    fn enter(&self) -> Result<(OwnedFd, Arc<DeviceLock>, Namespace), OpenError> {
        let home = Namespace::find(self.netns.as_deref())?;
        let watch = device_opener::watch(&home)?.map_err(system("watch network devices"))?;
        let device_lock = device_lock::take(&home, &self.name)?;
        Ok((watch, device_lock, home))
    }

    /// Why the device cannot carry packets now; `None`: it can.
    pub fn obstacle(&self, device: Option<&Device>) -> Option<String> {
        if let (None, Some(refused)) = (&self.watch, &self.refused) {
            return Some(refused.clone());
        }
        if let (None, Some(netns)) = (&self.watch, &self.netns) {
            return Some(format!("network namespace {netns} is gone"));
        }
        netdevice::obstacle(&self.name, device)
    }
}

/// When something that failed is tried again: soon at first, then every 5 s.
pub(crate) struct Retry {
    wait: Duration,
    next: Option<Instant>,
}

impl Retry {
    /// Nothing has failed yet.
    pub fn new() -> Self {
        Self { wait: FIRST, next: None }
    }

    /// Whether it is time to try.
    pub fn is_due(&self) -> bool {
        self.next.is_none_or(|next| Instant::now() >= next)
    }

    /// It failed: wait, twice as long as the last time.
    pub fn failed(&mut self) {
        self.next = Some(Instant::now() + self.wait);
        self.wait = (self.wait * 2).min(LONGEST);
    }

    /// It succeeded, or a new attempt is likely to succeed.
    pub fn reset(&mut self) {
        *self = Self::new();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit() {
        let mut retry = Retry::new();
        assert!(retry.is_due());
        retry.failed();
        assert!(!retry.is_due());
        for _ in 0..20 {
            retry.failed();
        }
        assert_eq!(retry.wait, LONGEST);
        retry.reset();
        assert!(retry.is_due());
    }

    #[test]
    fn the_holder_of_the_device_is_reported() {
        let mut follower = Follower {
            name: "lan".into(),
            netns: Some("blue".into()),
            watch: None,
            device_lock: None,
            refused: None,
            home: None,
            last_check: Instant::now(),
        };
        assert_eq!(follower.obstacle(None).as_deref(), Some("network namespace blue is gone"));
        let busy = OpenError::Busy { what: "device lan of another router (process 7)".into() };
        follower.refused = Some(busy.to_string());
        assert_eq!(follower.obstacle(None), Some(busy.to_string()));
    }
}
