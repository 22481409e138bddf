//! A device of DPDK from its start to its end.

use std::ffi::CStr;
use std::sync::atomic::AtomicBool;

use stoa_engine::Pool;

use super::eal::{self, Failure};
use super::mempool::{self, Mempool};
use super::name::{Name, c_string};
use super::queue::Count;
use super::shim::{self, Wish};
use crate::config::DpdkConfig;
use crate::error::OpenError;
use crate::link;

/// The share of the pool's buffers that a device may hold, in per cent.
const SHARE: u64 = 75;

/// A device that was started. It ends with the last of the port and its queues.
pub(super) struct Device {
    pub(super) port: u16,
    pub(super) mempool: &'static Mempool,
    /// Receive queues in use.
    pub(super) receiving: Vec<AtomicBool>,
    /// Transmit queues in use.
    pub(super) sending: Vec<AtomicBool>,
    /// Frames in several buffers for which there was none of ours.
    pub(super) missed: Count,
    /// Drops that DPDK counted under this number for an earlier device.
    missed_before: u64,
    facts: shim::Device,
    name: Name,
}

impl Device {
    /// Makes the device that the configuration names known to DPDK, sets it up and starts it.
    pub(super) fn start(config: &DpdkConfig, pool: &'static Pool) -> Result<Self, OpenError> {
        let rx = link::queues("rx-queues", config.rx_queues, link::QUEUES_MAX)?;
        link::queues("tx-queues", config.tx_queues, link::QUEUES_MAX)?;
        let mtu = if config.mtu == 0 { 0 } else { link::mtu(config.mtu, link::MTU)? };
        let name = Name::lease(&config.device)?;
        eal::start(name.is_card())?;
        let mempool = mempool::of(pool).map_err(|error| {
            let error = std::io::Error::from_raw_os_error(-error);
            let reason = format!(
                "cannot create a DPDK mempool: {error}; free memory or huge pages, or lower \
                 /stoa-system:system/workers/buffers"
            );
            OpenError::Unsupported { field: "dpdk", reason }
        })?;
        let facts = probe(&config.device, &name)?;
        // From here on it is closed when something fails.
        let mut device = Self {
            port: facts.port,
            mempool,
            receiving: Vec::new(),
            sending: Vec::new(),
            missed: Count::default(),
            missed_before: 0,
            facts,
            name,
        };
        let tx = match config.tx_queues {
            0 => config.workers.clamp(1, device.facts.tx_queues_max.max(1)),
            requested => requested,
        };
        device.fits("rx-queues", rx, device.facts.rx_queues_max)?;
        device.fits("tx-queues", tx, device.facts.tx_queues_max)?;
        device.carries(mtu)?;
        let required = if mtu == 0 { link::MTU } else { mtu };
        let longest = link::longest(required) as u32;
        let ring = config.ring_size;
        device.configure(&Wish { rx_queues: rx, tx_queues: tx, ring, mtu, longest })?;
        device.leaves_some((rx, tx), pool)?;
        let free = |count| (0..count).map(|_| AtomicBool::new(false)).collect();
        (device.receiving, device.sending) = (free(rx), free(tx));
        device.missed_before = device.missed();
        Ok(device)
    }

    /// The pool whose buffers it uses.
    pub(super) fn pool(&self) -> &'static Pool {
        self.mempool.pool()
    }

    fn fits(&self, field: &'static str, requested: u16, most: u16) -> Result<(), OpenError> {
        if requested <= most {
            return Ok(());
        }
        let name = self.name.as_str();
        let reason = format!(
            "{requested} queues requested: {name} has at most {most}; configure {most} or fewer"
        );
        Err(OpenError::Config { field, reason })
    }

    fn carries(&self, mtu: u32) -> Result<(), OpenError> {
        let (least, most) = (self.facts.mtu_min, self.facts.mtu_max.min(link::MTU_MAX));
        if mtu == 0 || (least..=most).contains(&mtu) {
            return Ok(());
        }
        let name = self.name.as_str();
        let reason = format!(
            "{mtu} bytes requested: {name} supports {least} to {most}; configure a value in this range"
        );
        Err(OpenError::Config { field: "mtu", reason })
    }

    fn configure(&mut self, wish: &Wish) -> Result<(), OpenError> {
        let (facts, stock) = (&mut self.facts, self.mempool.stock());
        // SAFETY: the device is open, both structures outlive the call, and the stock is that of
        // a mempool.
        let call = || unsafe { shim::stoa_dpdk_configure(facts, wish, stock) };
        eal::attempt(call).map_err(|Failure { reason, .. }| {
            let name = self.name.as_str();
            // Without an IOMMU, DPDK has no virtual addresses for a device on a bus.
            let iommu = match self.name.is_card() {
                true => ", and check that the IOMMU is enabled (intel_iommu=on or amd_iommu=on)",
                false => "",
            };
            let reason = format!(
                "cannot configure {name}: {reason}; change rx-queues, tx-queues, ring-size, mtu or \
                 the arguments of the device{iommu}"
            );
            OpenError::Unsupported { field: "dpdk", reason }
        })
    }

    /// Whether the device's rings leave buffers for packets in flight.
    fn leaves_some(&self, (rx, tx): (u16, u16), pool: &Pool) -> Result<(), OpenError> {
        let rings = u64::from(rx) * u64::from(self.facts.rx_ring)
            + u64::from(tx) * u64::from(self.facts.tx_ring);
        // Virtual devices hold no more than a burst, whatever size their rings have.
        let held = if self.facts.is_virtual != 0 { 0 } else { rings };
        if held * 100 <= u64::from(pool.count()) * SHARE {
            return Ok(());
        }
        Err(OpenError::Buffers { required: held * 100 / SHARE, buffers: pool.count() })
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_str()
    }

    pub(super) fn facts(&self) -> &shim::Device {
        &self.facts
    }

    /// The driver's name in DPDK.
    pub(super) fn driver(&self) -> String {
        let name = CStr::from_bytes_until_nul(&self.facts.driver).unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Whether the link is up, and its speed in Mbit/s, 0 when that is not known.
    pub(super) fn link(&self) -> Option<u32> {
        let mut speed = 0;
        // SAFETY: the device is open.
        let is_up = unsafe { shim::stoa_dpdk_link(self.port, &mut speed) } != 0;
        is_up.then_some(speed)
    }

    pub(super) fn set_link(&self, is_up: bool) {
        // SAFETY: the device is open.
        unsafe { shim::stoa_dpdk_set_link(self.port, is_up.into()) };
    }

    /// Frames that the device dropped before we received them, since the start.
    pub(super) fn missed(&self) -> u64 {
        // SAFETY: the device is open.
        let by_device = unsafe { shim::stoa_dpdk_missed(self.port) };
        by_device.saturating_sub(self.missed_before) + self.missed.get()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // The remaining packets are freed with their ring. Queues exist after a successful start.
        let is_ring = self.facts.driver.starts_with(b"net_ring\0");
        let queues = if is_ring { self.receiving.len() as u16 } else { 0 };
        // SAFETY: our queues are gone, or were never made: nothing else uses the device.
        eal::alone(|| unsafe { shim::stoa_dpdk_close(self.port, queues) });
    }
}

fn probe(requested: &str, name: &Name) -> Result<shim::Device, OpenError> {
    let (arguments, called) = (c_string(requested)?, c_string(name.as_str())?);
    let mut facts = shim::Device::default();
    // SAFETY: two strings, and a structure to be filled in.
    let call = || unsafe { shim::stoa_dpdk_probe(arguments.as_ptr(), called.as_ptr(), &mut facts) };
    eal::attempt(call).map_err(|Failure { errno, reason }| {
        let called = name.as_str();
        let (reason, fix) = match (name.is_card(), errno) {
            (true, libc::ENODEV) => {
                ("there is no such PCI device", "use an address that `lspci -D` lists")
            }
            (true, _) => (
                reason.as_str(),
                "bind the device to vfio-pci (`dpdk-devbind.py -b vfio-pci ADDRESS`), and install \
                 the package of its DPDK driver (librte-net-...)",
            ),
            // No bus knows the name.
            (false, libc::EFAULT) => {
                let reason = format!(
                    "DPDK has no driver for {called}: correct the name, or install the package of \
                     the driver (librte-net-...)"
                );
                return OpenError::Config { field: "device", reason };
            }
            (false, _) => (reason.as_str(), "correct the arguments of the device"),
        };
        let reason = format!("cannot open {called}: {reason}; {fix}");
        OpenError::Unsupported { field: "dpdk", reason }
    })?;
    Ok(facts)
}
