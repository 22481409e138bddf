//! Shared-memory packet interfaces: memif 2.0, in both roles.
//!
//! Two programs on one machine pass Ethernet frames to each other through rings in shared memory,
//! without the kernel: VPP, DPDK (`net_memif`), Stoa, or a network function of your own. The
//! *slave* owns the memory and connects to a Unix socket; the *master* listens there and may serve
//! several slaves, distinguished by an id.
//!
//! [`Memif`] is the control side: call [`Memif::service`] often, or when one of its
//! [descriptors](Memif::descriptors) is readable. Once both sides agree it hands out the rings:
//! a [`Receiver`] for each queue towards us, a [`Sender`] for each towards the peer. They may be
//! moved to other threads. When the link ends, drop them; the control side reconnects.
//!
//! ```no_run
//! use stoa_memif::{Config, Event, Memif, Role};
//!
//! let config = Config { socket: "/run/me.sock".into(), role: Role::Slave, ..Config::default() };
//! let mut memif = Memif::open(&config)?;
//! let (mut receivers, mut senders) = (Vec::new(), Vec::new());
//! loop {
//!     match memif.service() {
//!         Some(Event::Up(rings)) => (receivers, senders) = (rings.receivers, rings.senders),
//!         Some(Event::Down(reason)) => {
//!             eprintln!("{reason}");
//!             (receivers, senders) = (Vec::new(), Vec::new());
//!         }
//!         None => {}
//!     }
//!     // Echo each frame.
//!     for (receiver, sender) in receivers.iter_mut().zip(&mut senders) {
//!         let mut batch = sender.batch();
//!         receiver.receive(|frame| _ = batch.put(frame));
//!     }
//! #   let _ = &mut senders;
//!     stoa_memif::wait(&memif, &mut receivers, std::time::Duration::from_secs(1))?;
//! }
//! # #[expect(unreachable_code)]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **A peer is not trusted.** It can write into the shared memory at any time, so each index and
//! descriptor is read once, checked, then used, and each frame is copied into private memory before
//! it is read. A malicious peer loses its own frames or its link, nothing else; memory
//! that a peer could withdraw (a file that can shrink, reserved huge pages) is refused unless
//! [`Config::trust_memory`] is set.

mod config;
mod cursor;
mod doorbell;
mod endpoint;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod listener;
mod master;
pub mod messages;
mod region;
mod ring;
mod rx;
mod slave;
mod slots;
mod socket;
#[cfg(all(test, not(loom)))]
mod tests;
mod tx;
mod wait;

pub use config::{Config, Role};
pub use endpoint::{Event, Memif, Rings};
pub use error::OpenError;
pub use ring::BATCH;
pub use rx::{Doze, FrameSink, LINE, Receiver};
pub use tx::{Batch, NoRoom, Sender};
pub use wait::wait;
