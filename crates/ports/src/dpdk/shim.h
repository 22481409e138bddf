/* What of DPDK is inline functions, macros and large structures, as plain functions: device.c and packet.c. No
 * state but the registered mempool operations, no decisions: those are in the Rust files beside it. The same in
 * Rust is shim.rs.
 *
 * An error is a negative errno, as DPDK has it.
 */
#ifndef STOA_DPDK_SHIM_H
#define STOA_DPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#define BURST 256
#define NONE UINT32_MAX
#define JUMBO_SLOTS 5

/* A header lies behind what DPDK keeps of an object of a mempool: three cache lines in all, an odd number, so
 * that the headers of a burst spread over the cache as the buffers do. */
#define STRIDE 192
_Static_assert(sizeof(struct rte_mempool_objhdr) <= 64, "an object's header has a line");
_Static_assert(sizeof(struct rte_mbuf) == 128, "a packet's header has two lines");
_Static_assert(RTE_PKTMBUF_HEADROOM == 128, "the headroom of a fresh packet is the pool's");

/* The headers of a pool's buffers, in the order of the pool: plain ones, then jumbo ones. */
struct headers {
	uint8_t *first;
	struct rte_mempool *mempool;
	uint32_t plain;
};

/* `cache`: the calling worker's own stock of ids, or NULL. */
typedef int (*lend_fn)(void *owner, void *cache, uint32_t *ids, uint32_t count);
typedef void (*take_back_fn)(void *owner, void *cache, const uint32_t *ids, uint32_t count);

/* Who owns the buffers of a mempool. */
struct stock {
	struct headers headers;
	lend_fn lend;
	take_back_fn take_back;
	uint32_t (*count)(void *owner);
	void *owner;
};

/* What a pool looks like. */
struct layout {
	uint8_t *base;
	size_t mapped;
	size_t page;
	uint32_t slot;
	uint32_t plain;
	uint32_t jumbos;
};

/* What a device says of itself, and what it was made to. */
struct device {
	uint16_t port;
	uint16_t rx_queues_max;
	uint16_t tx_queues_max;
	uint16_t rx_ring;
	uint16_t tx_ring;
	uint32_t mtu_min;
	uint32_t mtu_max;
	uint32_t mtu;
	uint8_t mac[6];
	uint8_t spreads;
	uint8_t is_virtual;
	char driver[32];
};

/* What is asked of it. */
struct wish {
	uint16_t rx_queues;
	uint16_t tx_queues;
	uint16_t ring;
	uint32_t mtu;
	uint32_t longest;
};

#endif
