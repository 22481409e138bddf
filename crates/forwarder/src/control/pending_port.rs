//! A port whose device is missing: it is down with a reason, and is opened once the device appears. So a
//! restarted router comes up with the ports that exist.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use stoa_engine::{Pool, Port, PortEvent};
use stoa_ports::PortConfig;

use super::ports::PortOpener;

/// Interval between attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// A port that is waiting for its device, or was opened meanwhile.
pub(super) struct PendingPort {
    config: PortConfig,
    pool: &'static Pool,
    open: PortOpener,
    port: Option<Box<dyn Port>>,
    last_try: Instant,
    reason: String,
    is_reported: bool,
    /// The configured state for when it is opened.
    enabled: bool,
}

impl PendingPort {
    /// Waits until `config` can be opened, which just failed with `reason`.
    pub(super) fn new(
        config: PortConfig,
        pool: &'static Pool,
        open: PortOpener,
        reason: String,
    ) -> Self {
        Self {
            config,
            pool,
            open,
            port: None,
            last_try: Instant::now(),
            reason,
            is_reported: false,
            enabled: true,
        }
    }
}

impl Port for PendingPort {
    fn driver(&self) -> &'static str {
        self.port.as_ref().map_or(self.config.driver(), |port| port.driver())
    }

    fn mac(&self) -> [u8; 6] {
        self.port.as_ref().map_or([0; 6], |port| port.mac())
    }

    fn mtu(&self) -> u32 {
        self.port.as_ref().map_or(1500, |port| port.mtu())
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.port.iter().flat_map(|port| port.descriptors()).collect()
    }

    fn service(&mut self) -> Vec<PortEvent> {
        if let Some(port) = &mut self.port {
            return port.service();
        }
        if self.is_reported && self.last_try.elapsed() < RETRY_INTERVAL {
            return Vec::new();
        }
        self.last_try = Instant::now();
        match (self.open)(&self.config, self.pool) {
            Ok(port) => {
                let port = self.port.insert(port);
                port.set_enabled(self.enabled);
                port.service()
            }
            Err(error) => {
                let reason = error.to_string();
                if self.is_reported && reason == self.reason {
                    return Vec::new();
                }
                (self.is_reported, self.reason) = (true, reason.clone());
                vec![PortEvent::Down(reason)]
            }
        }
    }

    fn needs_service(&self) -> bool {
        self.port.as_ref().is_none_or(|port| port.needs_service())
    }

    fn pool(&self) -> Option<&'static Pool> {
        self.port.as_ref().and_then(|port| port.pool())
    }

    fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
        if let Some(port) = &mut self.port {
            port.set_enabled(enabled);
        }
    }

    fn missed(&self) -> u64 {
        self.port.as_ref().map_or(0, |port| port.missed())
    }

    fn detail(&self) -> String {
        self.port.as_ref().map_or_else(|| self.reason.clone(), |port| port.detail())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use stoa_engine::pool::HugePages;
    use stoa_ports::{NullConfig, OpenError};

    use super::*;

    /// A port that records whether it is enabled.
    struct Switch(Arc<AtomicBool>);

    impl Port for Switch {
        fn driver(&self) -> &'static str {
            "null"
        }

        fn mac(&self) -> [u8; 6] {
            [2, 0, 0, 0, 0, 1]
        }

        fn mtu(&self) -> u32 {
            1500
        }

        fn service(&mut self) -> Vec<PortEvent> {
            Vec::new()
        }

        fn set_enabled(&mut self, enabled: bool) {
            self.0.store(enabled, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_configured_state_is_kept_until_the_port_opens() {
        let (there, enabled) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        let (is_there, shown) = (there.clone(), enabled.clone());
        let open: PortOpener = Arc::new(move |_, _| match is_there.load(Ordering::Relaxed) {
            true => Ok(Box::new(Switch(shown.clone())) as Box<dyn Port>),
            false => Err(OpenError::NoDevice { device: "late".into(), netns: None }),
        });
        let pool = Pool::leak(512, HugePages::Never).unwrap();
        let config = PortConfig::Null(NullConfig::default());
        let mut port = PendingPort::new(config, pool, open, "not there".into());
        assert_eq!(port.service().len(), 1, "it reports why it is down");
        port.set_enabled(false);
        there.store(true, Ordering::Relaxed);
        port.last_try = Instant::now().checked_sub(RETRY_INTERVAL).unwrap();
        port.service();
        assert_eq!(port.mac(), [2, 0, 0, 0, 0, 1]);
        assert!(!enabled.load(Ordering::Relaxed), "it opens as configured meanwhile");
        port.set_enabled(true);
        assert!(enabled.load(Ordering::Relaxed));
    }
}
