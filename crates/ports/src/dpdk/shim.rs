//! The functions and structures of `shim.h`.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

/// Packets of a burst at most.
pub(super) const BURST: usize = 256;
/// Bytes between the headers of two buffers.
pub(super) const STRIDE: usize = 192;
/// Where the first header lies in the memory of all headers.
pub(super) const FIRST: usize = 64;

const _: () = assert!(BURST == stoa_engine::VECTOR);

/// DPDK's packet header; opaque here.
pub(super) enum Mbuf {}

/// The headers of a pool's buffers.
#[repr(C)]
pub(super) struct Headers {
    pub(super) first: *mut u8,
    pub(super) mempool: *mut c_void,
    pub(super) plain: u32,
}

/// The owner of a mempool's buffers.
#[repr(C)]
pub(super) struct Stock {
    pub(super) headers: Headers,
    pub(super) lend: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut u32, u32) -> c_int,
    pub(super) take_back: unsafe extern "C" fn(*mut c_void, *mut c_void, *const u32, u32),
    pub(super) count: unsafe extern "C" fn(*mut c_void) -> u32,
    pub(super) owner: *mut c_void,
}

/// The layout of a pool.
#[repr(C)]
pub(super) struct Layout {
    pub(super) base: *mut u8,
    pub(super) mapped: usize,
    pub(super) page: usize,
    pub(super) slot: u32,
    pub(super) plain: u32,
    pub(super) jumbos: u32,
}

/// Space for `struct rte_mempool_memhdr`, which has 56 bytes.
#[repr(C, align(64))]
pub(super) struct MemoryHeader(pub(super) [u8; 64]);

/// The properties of a device, and its settings.
#[repr(C)]
#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    pub(super) port: u16,
    pub(super) rx_queues_max: u16,
    pub(super) tx_queues_max: u16,
    pub(super) rx_ring: u16,
    pub(super) tx_ring: u16,
    pub(super) mtu_min: u32,
    pub(super) mtu_max: u32,
    pub(super) mtu: u32,
    pub(super) mac: [u8; 6],
    pub(super) spreads: u8,
    pub(super) is_virtual: u8,
    pub(super) driver: [u8; 32],
}

/// The requested settings.
#[repr(C)]
#[derive(Clone, Debug, Default)]
pub(super) struct Wish {
    pub(super) rx_queues: u16,
    pub(super) tx_queues: u16,
    pub(super) ring: u16,
    pub(super) mtu: u32,
    pub(super) longest: u32,
}

unsafe extern "C" {
    pub(super) fn stoa_dpdk_start(
        count: c_int,
        words: *mut *mut c_char,
        log: extern "C" fn(*const u8, usize),
    ) -> c_int;
    pub(super) fn stoa_dpdk_mempool(
        name: *const c_char,
        pool: *const Layout,
        stock: *mut Stock,
        memory: *mut MemoryHeader,
    ) -> c_int;
    pub(super) fn stoa_dpdk_probe(
        arguments: *const c_char,
        name: *const c_char,
        device: *mut Device,
    ) -> c_int;
    pub(super) fn stoa_dpdk_configure(
        device: *mut Device,
        wish: *const Wish,
        stock: *const Stock,
    ) -> c_int;
    pub(super) fn stoa_dpdk_close(port: u16, queues: u16);
    pub(super) fn stoa_dpdk_link(port: u16, speed: *mut u32) -> c_int;
    pub(super) fn stoa_dpdk_set_link(port: u16, up: c_int);
    pub(super) fn stoa_dpdk_missed(port: u16) -> u64;
    pub(super) fn stoa_dpdk_receive(
        stock: *const Stock,
        cache: *mut c_void,
        port: u16,
        queue: u16,
        limit: u32,
        ids: *mut u32,
        offsets: *mut u16,
        lengths: *mut u16,
        others: *mut MaybeUninit<*mut Mbuf>,
        others_count: *mut u32,
    ) -> u32;
    pub(super) fn stoa_dpdk_length(mbuf: *const Mbuf) -> u32;
    pub(super) fn stoa_dpdk_copy_out(mbuf: *mut Mbuf, to: *mut u8);
    pub(super) fn stoa_dpdk_free(mbuf: *mut Mbuf);
    pub(super) fn stoa_dpdk_transmit(
        stock: *const Stock,
        cache: *mut c_void,
        port: u16,
        queue: u16,
        count: u32,
        ids: *const u32,
        offsets: *const u16,
        lengths: *const u16,
    ) -> u32;
}
