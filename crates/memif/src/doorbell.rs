//! Doorbells: eventfds that wake a side of a ring which sleeps.
//!
//! A peer shares its doorbell's file with us, and with it the flag that decides whether
//! writing may block. One that clears the flag and fills the counter would hold up the
//! worker that rings: write(2) on an eventfd has no non-blocking flag. So we do not write. We
//! submit a read of no bytes from `/dev/null` by io_submit(2) and have its end signalled to
//! the doorbell (`IOCB_FLAG_RESFD`): the kernel's own signal never waits, whatever
//! the flags and the counter are. It costs one microsecond more than a write, for peers that sleep.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Requests in flight in this process, including completed ones that were not
/// fetched. Each ringer leaves at most [`FETCH`] of them.
const REQUESTS: libc::c_long = 4096;
/// Rings after which a ringer fetches the ends of requests.
const FETCH: u32 = 16;

/// linux/aio_abi.h: a read at a position.
const PREAD: u16 = 0;
/// linux/aio_abi.h: signal the end to `resfd`.
const RESFD: u32 = 1;

/// linux/aio_abi.h, `struct iocb` for little-endian machines; on others the halves of
/// `key` and `rw_flags` change places, and both are zero.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    resfd: u32,
}

/// linux/aio_abi.h, `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    _words: [u64; 4],
}

/// The process's AIO context. Never closed: ending it would wait for the kernel.
struct Signals {
    context: libc::c_ulong,
    null: File,
}

/// `None`: this kernel or a filter of system calls forbids it.
static SIGNALS: OnceLock<Option<Signals>> = OnceLock::new();

impl Signals {
    fn open() -> Option<Self> {
        let null = File::open("/dev/null").ok()?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one word, which lives through the call.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, REQUESTS, &raw mut context) };
        (made == 0).then_some(Self { context, null })
    }

    /// Signals an eventfd; `false`: it could not.
    fn signal(&self, event: BorrowedFd<'_>) -> bool {
        let mut request = Request {
            opcode: PREAD,
            file: self.null.as_raw_fd() as u32,
            flags: RESFD,
            resfd: event.as_raw_fd() as u32,
            ..Request::default()
        };
        let mut requests = [&raw mut request];
        // SAFETY: one request, which lives through the call and reads no byte; it has ended
        // when the call returns.
        unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, requests.as_mut_ptr()) == 1 }
    }

    /// Reaps completed requests, so that new ones fit.
    fn fetch(&self) {
        let mut events = [Event::default(); 4 * FETCH as usize];
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let most = events.len();
        // SAFETY: the kernel writes at most `most` events and reads one time; it does not wait.
        unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                0,
                most,
                events.as_mut_ptr(),
                &raw const now,
            )
        };
    }
}

/// An eventfd that both sides hold.
pub(crate) struct Doorbell {
    event: OwnedFd,
    rings: u32,
}

impl Doorbell {
    /// A doorbell of our own or of a peer, which must be an eventfd.
    pub(crate) fn new(event: OwnedFd) -> Self {
        // The first doorbell of the process makes it ready, not a worker.
        SIGNALS.get_or_init(Signals::open);
        Self { event, rings: 0 }
    }

    /// Rings, without ever waiting.
    pub(crate) fn ring(&mut self) {
        let Some(Some(signals)) = SIGNALS.get() else { return self.write() };
        if !signals.signal(self.event.as_fd()) {
            signals.fetch();
            signals.signal(self.event.as_fd());
        }
        self.rings = self.rings.wrapping_add(1);
        if self.rings.is_multiple_of(FETCH) {
            signals.fetch();
        }
    }

    /// The fallback where signals are forbidden: it polls before it writes, and only a peer that
    /// fills the counter between the two can still make it wait.
    #[cold]
    fn write(&self) {
        let mut pollfd = [PollFd::new(self.event.as_fd(), PollFlags::POLLOUT)];
        let is_writable = poll(&mut pollfd, PollTimeout::ZERO).is_ok_and(|ready| ready == 1);
        let flags = fcntl(&self.event, FcntlArg::F_GETFL).unwrap_or(0);
        let flags = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
        if is_writable && fcntl(&self.event, FcntlArg::F_SETFL(flags)).is_ok() {
            // A full counter means that the peer has not read yet and wakes anyway.
            let _ = nix::unistd::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Empties the doorbell without ever waiting, whatever the peer did to it.
    pub(crate) fn quiet(&self) {
        let mut count = [0_u8; 8];
        let into = libc::iovec { iov_base: count.as_mut_ptr().cast(), iov_len: count.len() };
        // SAFETY: one vector of eight bytes of a local array; offset -1 means none.
        unsafe { libc::preadv2(self.event.as_raw_fd(), &into, 1, -1, libc::RWF_NOWAIT) };
    }

    /// Readable when the other side rang.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Instant;

    use nix::sys::eventfd::{EfdFlags, EventFd};

    use super::*;

    /// The worst doorbell of a peer: full, and without O_NONBLOCK.
    fn trap() -> (Doorbell, EventFd) {
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).unwrap();
        event.write(u64::MAX - 1).unwrap();
        let ours = event.as_fd().try_clone_to_owned().unwrap();
        (Doorbell::new(ours), event)
    }

    #[test]
    fn ringing_never_waits() {
        let (mut doorbell, _event) = trap();
        let start = Instant::now();
        for _ in 0..10_000 {
            doorbell.ring();
        }
        doorbell.write();
        assert!(start.elapsed().as_secs() < 10);
    }

    #[test]
    fn each_ring_arrives() {
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK).unwrap();
        let mut doorbell = Doorbell::new(event.as_fd().try_clone_to_owned().unwrap());
        for _ in 0..1000 {
            doorbell.ring();
            assert_eq!(event.read(), Ok(1));
        }
        doorbell.write();
        assert_eq!(event.read(), Ok(1));
        doorbell.ring();
        doorbell.quiet();
        doorbell.quiet();
        assert!(event.read().is_err(), "quiet");
    }

    #[test]
    fn many_ring_at_once() {
        let threads = (0..8).map(|_| {
            std::thread::spawn(|| {
                let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK).unwrap();
                let mut doorbell = Doorbell::new(event.as_fd().try_clone_to_owned().unwrap());
                (0..5000).for_each(|_| doorbell.ring());
                assert_eq!(event.read(), Ok(5000));
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    }
}
