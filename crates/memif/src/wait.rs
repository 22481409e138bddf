//! Sleeping until there is something to do.

use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::endpoint::Memif;
use crate::rx::{Doze, Receiver};

/// How long a slave without a master sleeps at most.
const RETRY: Duration = Duration::from_millis(500);

/// Sleeps until a frame waits, the control side has something to do, or `most` has passed.
///
/// # Errors
/// The error of poll(2).
pub fn wait(memif: &Memif, receivers: &mut [Receiver], most: Duration) -> std::io::Result<()> {
    let can_sleep = receivers.iter_mut().all(|receiver| receiver.doze() == Doze::OnDescriptor);
    if can_sleep {
        let bells = receivers.iter().map(Receiver::descriptor);
        let all = bells.chain(memif.descriptors());
        let mut all: Vec<_> = all.map(|one| PollFd::new(one, PollFlags::POLLIN)).collect();
        let most = if receivers.is_empty() { most.min(RETRY) } else { most };
        let timeout = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
        match poll(&mut all, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    receivers.iter_mut().for_each(Receiver::wake);
    Ok(())
}
