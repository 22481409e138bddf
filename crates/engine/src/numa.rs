//! NUMA nodes: on which of them memory lies.
//!
//! Linux takes a page from the node of the processor that touches it first, unless the thread or the
//! mapping has a memory policy. A policy is advice here: where the kernel refuses it (a container
//! without the right, a node that does not exist), memory lies elsewhere and works the same.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::NonNull;

use nix::errno::Errno;

/// A NUMA node by its number in Linux, as in `/sys/devices/system/node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NumaNode(pub u32);

impl std::fmt::Display for NumaNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Nodes of Linux at most.
const NODES: usize = 1024;
/// What the system calls take as the number of bits: one more than they read.
const BITS: usize = NODES + 1;

/// One bit for each node.
type Mask = [u64; NODES / 64];

fn mask(nodes: &[NumaNode]) -> Mask {
    let mut mask = [0; NODES / 64];
    for node in nodes.iter().map(|node| node.0 as usize).filter(|node| *node < NODES) {
        mask[node / 64] |= 1 << (node % 64);
    }
    mask
}

/// Where pages lie that a thread touches first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy<'a> {
    /// On the node of the thread's processor.
    Local,
    /// On this node while it has free memory.
    Preferred(NumaNode),
    /// On these nodes in turn, page by page.
    Interleaved(&'a [NumaNode]),
}

/// Sets the calling thread's policy, which threads that it starts inherit.
///
/// # Errors
/// The kernel refuses it; the former policy stays.
pub fn set_policy(policy: Policy<'_>) -> nix::Result<()> {
    match policy {
        Policy::Local => set(libc::MPOL_DEFAULT, &mask(&[])),
        Policy::Preferred(node) => set(libc::MPOL_PREFERRED, &mask(&[node])),
        Policy::Interleaved(nodes) => set(libc::MPOL_INTERLEAVE, &mask(nodes)),
    }
}

fn set(mode: c_int, nodes: &Mask) -> nix::Result<()> {
    // SAFETY: the kernel reads a mask of NODES bits during the call.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, nodes.as_ptr(), BITS) };
    Errno::result(result).map(drop)
}

/// While this value lives, pages that the calling thread touches first lie on one node; afterwards
/// they lie where they did before.
pub struct Placed {
    mode: c_int,
    nodes: Mask,
    /// The policy is the thread's own.
    _thread: PhantomData<*const ()>,
}

/// Prefers `node` for pages that the calling thread touches first. `None` when there is no node to
/// prefer, or when the kernel refuses: nothing changes.
#[must_use]
pub fn prefer(node: Option<NumaNode>) -> Option<Placed> {
    let (mut mode, mut nodes) = (0, mask(&[]));
    let (address, flags) = (std::ptr::null::<u8>(), 0);
    let node = node?;
    // SAFETY: the kernel writes a number and a mask of NODES bits during the call.
    let result = unsafe {
        let nodes = nodes.as_mut_ptr();
        libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, nodes, BITS, address, flags)
    };
    let former =
        Errno::result(result).map(|_| Placed { mode, nodes, _thread: PhantomData }).ok()?;
    // On an error, dropping `former` sets what is set.
    set_policy(Policy::Preferred(node)).ok().map(|()| former)
}

impl Drop for Placed {
    fn drop(&mut self) {
        // The kernel accepted this policy before.
        let _ = set(self.mode, &self.nodes);
    }
}

/// The memory policy of a mapping, in the terms of `mbind(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MappingPolicy {
    /// Pages of other nodes will do.
    Preferred,
    /// Taking a page fails if the node has none.
    Bind,
}

/// Pages of `bytes` bytes from `base` on, which begin at a page and were not touched yet, are to lie on
/// `node`.
pub(crate) fn place(
    base: NonNull<u8>,
    bytes: usize,
    node: NumaNode,
    policy: MappingPolicy,
) -> nix::Result<()> {
    let mode = match policy {
        MappingPolicy::Preferred => libc::MPOL_PREFERRED,
        MappingPolicy::Bind => libc::MPOL_BIND,
    };
    let nodes = mask(&[node]);
    // SAFETY: the policy of a range changes neither its content nor whether it can be accessed, and
    // the kernel checks the range; it reads a mask of NODES bits during the call.
    let result = unsafe {
        libc::syscall(libc::SYS_mbind, base.as_ptr(), bytes, mode, nodes.as_ptr(), BITS, 0)
    };
    Errno::result(result).map(drop)
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    /// The calling thread's policy; `None`: the kernel has none, or does not tell.
    fn policy() -> Option<(c_int, Mask)> {
        let (mut mode, mut nodes) = (0, mask(&[]));
        let (address, flags) = (std::ptr::null::<u8>(), 0);
        // SAFETY: as in `prefer`.
        let result = unsafe {
            let nodes = nodes.as_mut_ptr();
            libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, nodes, BITS, address, flags)
        };
        (result == 0).then_some((mode, nodes))
    }

    #[test]
    fn a_mask_has_a_bit_for_each_node_that_linux_can_have() {
        assert_eq!(mask(&[NumaNode(0), NumaNode(65)])[..2], [1, 2]);
        assert_eq!(mask(&[NumaNode(1024), NumaNode(u32::MAX)]), mask(&[]));
    }

    #[test]
    fn a_preference_ends_with_its_value() {
        // On a thread of its own, because the policy is the thread's.
        std::thread::spawn(|| {
            let Some(before) = policy() else { return };
            assert!(prefer(None).is_none());
            // Each machine has node 0, but a container may refuse policies.
            if let Some(placed) = prefer(Some(NumaNode(0))) {
                assert_eq!(policy().map(|it| it.0), Some(libc::MPOL_PREFERRED));
                drop(placed);
            }
            assert_eq!(policy(), Some(before));
            assert!(prefer(Some(NumaNode(1023))).is_none(), "there is no such node");
            assert_eq!(policy(), Some(before));
        })
        .join()
        .expect("the thread's own assertions hold");
    }

    #[test]
    fn interleaving_lasts_until_the_thread_is_local_again() {
        std::thread::spawn(|| {
            if set_policy(Policy::Interleaved(&[NumaNode(0)])).is_ok() {
                assert_eq!(policy().map(|it| it.0), Some(libc::MPOL_INTERLEAVE));
                assert_eq!(set_policy(Policy::Local), Ok(()));
            }
            assert!(policy().is_none_or(|it| it.0 == libc::MPOL_DEFAULT));
        })
        .join()
        .expect("the thread's own assertions hold");
    }
}
