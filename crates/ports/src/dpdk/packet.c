/* Headers of the pool's buffers, and bursts of packets. */
#include <errno.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_memory.h>

#include "shim.h"

static inline struct rte_mbuf *header(const struct headers *all, uint32_t id)
{
	uint32_t at = id < all->plain ? id : all->plain + (id - all->plain) / JUMBO_SLOTS;

	return (struct rte_mbuf *)(all->first + (size_t)at * STRIDE);
}

static inline uint32_t id_of(const struct headers *all, const struct rte_mbuf *mbuf)
{
	uint32_t at = (uint32_t)((size_t)((const uint8_t *)mbuf - all->first) / STRIDE);

	return at < all->plain ? at : all->plain + (at - all->plain) * JUMBO_SLOTS;
}

static int ops_alloc(struct rte_mempool *mempool)
{
	mempool->pool_data = mempool->pool_config;
	return 0;
}

static void ops_free(struct rte_mempool *mempool)
{
	(void)mempool;
}

/* Ids on their way between a worker and the driver that it calls: many drivers free and take packets one by one,
 * and the owner is asked for many at a time. */
struct stash {
	/* NULL: this thread calls no driver for a worker now. */
	const struct stock *stock;
	void *cache;
	uint32_t count;
	uint32_t ids[2 * BURST];
};

static __thread struct stash stash;

/* Ids that are asked for at once at least. */
#define BATCH 32

static inline void open_stash(const struct stock *stock, void *cache)
{
	stash.stock = stock;
	stash.cache = cache;
}

static inline void empty_stash(void)
{
	if (stash.count > 0)
		stash.stock->take_back(stash.stock->owner, stash.cache, stash.ids, stash.count);
	stash.count = 0;
}

static inline void close_stash(void)
{
	empty_stash();
	stash.stock = NULL;
}

/* Sees to it that `want` ids (at most BURST) are in the stash. */
static int fill_stash(uint32_t want)
{
	const struct stock *stock = stash.stock;
	uint32_t missing = want - stash.count;
	uint32_t *end = stash.ids + stash.count;

	if (missing < BATCH && stock->lend(stock->owner, stash.cache, end, BATCH)) {
		stash.count += BATCH;
		return 1;
	}
	if (!stock->lend(stock->owner, stash.cache, end, missing))
		return 0;
	stash.count += missing;
	return 1;
}

static int ops_enqueue(struct rte_mempool *mempool, void *const *objects, unsigned int count)
{
	const struct stock *stock = mempool->pool_data;
	uint32_t ids[BURST];

	if (likely(stash.stock == stock && count <= BURST)) {
		if (unlikely(stash.count + count > RTE_DIM(stash.ids)))
			empty_stash();
		for (unsigned int i = 0; i < count; i++)
			stash.ids[stash.count++] = id_of(&stock->headers, objects[i]);
		return 0;
	}
	while (count > 0) {
		unsigned int some = RTE_MIN(count, (unsigned int)BURST);

		for (unsigned int i = 0; i < some; i++)
			ids[i] = id_of(&stock->headers, objects[i]);
		stock->take_back(stock->owner, NULL, ids, some);
		objects += some;
		count -= some;
	}
	return 0;
}

static int ops_dequeue(struct rte_mempool *mempool, void **objects, unsigned int count)
{
	const struct stock *stock = mempool->pool_data;
	uint32_t ids[BURST];

	if (likely(stash.stock == stock && count <= BURST)) {
		if (stash.count < count && unlikely(!fill_stash(count)))
			return -ENOBUFS;
		for (unsigned int i = 0; i < count; i++)
			objects[i] = header(&stock->headers, stash.ids[--stash.count]);
		return 0;
	}
	for (unsigned int done = 0; done < count;) {
		unsigned int some = RTE_MIN(count - done, (unsigned int)BURST);

		if (!stock->lend(stock->owner, NULL, ids, some)) {
			ops_enqueue(mempool, objects, done);
			return -ENOBUFS;
		}
		for (unsigned int i = 0; i < some; i++)
			objects[done + i] = header(&stock->headers, ids[i]);
		done += some;
	}
	return 0;
}

static unsigned int ops_count(const struct rte_mempool *mempool)
{
	const struct stock *stock = mempool->pool_data;

	return stock->count(stock->owner);
}

static const struct rte_mempool_ops OPS = {
	.name = "stoa",
	.alloc = ops_alloc,
	.free = ops_free,
	.enqueue = ops_enqueue,
	.dequeue = ops_dequeue,
	.get_count = ops_count,
};

static void prepare(struct rte_mempool *mempool, const struct layout *pool, uint32_t at)
{
	const struct stock *stock = mempool->pool_data;
	uint32_t id = at < pool->plain ? at : pool->plain + (at - pool->plain) * JUMBO_SLOTS;
	struct rte_mbuf *mbuf = header(&stock->headers, id);
	struct rte_mempool_objhdr *object = RTE_PTR_SUB(mbuf, sizeof(*object));

	object->mp = mempool;
	object->iova = (rte_iova_t)mbuf;
	STAILQ_INSERT_TAIL(&mempool->elt_list, object, next);
	memset(mbuf, 0, sizeof(*mbuf));
	mbuf->buf_addr = pool->base + (size_t)id * pool->slot;
	mbuf->buf_iova = (rte_iova_t)mbuf->buf_addr;
	mbuf->buf_len = (at < pool->plain ? 1 : JUMBO_SLOTS) * pool->slot;
	mbuf->data_off = RTE_PKTMBUF_HEADROOM;
	mbuf->pool = mempool;
	mbuf->nb_segs = 1;
	mbuf->port = RTE_MBUF_PORT_INVALID;
	rte_mbuf_refcnt_set(mbuf, 1);
}

/* Makes a mempool whose objects are headers of a pool's buffers. `stock`, the headers in it and `memory` live as
 * long as the process. */
int stoa_dpdk_mempool(const char *name, const struct layout *pool, struct stock *stock,
		      struct rte_mempool_memhdr *memory)
{
	static int registered = -1;
	struct rte_pktmbuf_pool_private private = {.mbuf_data_room_size = pool->slot};
	uint32_t count = pool->plain + pool->jumbos;
	struct rte_mempool *mempool;
	int result;

	if (registered < 0)
		registered = rte_mempool_register_ops(&OPS);
	if (registered < 0)
		return registered;
	mempool = rte_mempool_create_empty(name, count, sizeof(struct rte_mbuf) + pool->slot, 0,
					   sizeof(private), SOCKET_ID_ANY, 0);
	if (mempool == NULL)
		return -rte_errno;
	result = rte_mempool_set_ops_byname(mempool, OPS.name, stock);
	if (result < 0) {
		rte_mempool_free(mempool);
		return result;
	}
	mempool->pool_data = stock;
	mempool->flags |= RTE_MEMPOOL_F_POOL_CREATED;
	/* Devices may use it, though it was not populated by DPDK's own functions. */
	mempool->flags &= ~RTE_MEMPOOL_F_NON_IO;
	rte_pktmbuf_pool_init(mempool, &private);
	stock->headers.mempool = mempool;
	for (uint32_t at = 0; at < count; at++)
		prepare(mempool, pool, at);
	mempool->populated_size = count;
	/* Where the data lies: drivers that register memory themselves look here. */
	memory->mp = mempool;
	memory->addr = pool->base;
	memory->iova = (rte_iova_t)pool->base;
	memory->len = pool->mapped;
	STAILQ_INSERT_TAIL(&mempool->mem_list, memory, next);
	mempool->nb_mem_chunks = 1;
	result = rte_extmem_register(pool->base, pool->mapped, NULL, pool->mapped / pool->page, pool->page);
	return result < 0 ? -rte_errno : 0;
}

/* One piece, in a buffer of ours that nobody else uses, its tags where they belong. */
static inline int is_plain(const struct headers *all, struct rte_mbuf *mbuf)
{
	const uint64_t odd = RTE_MBUF_F_RX_VLAN_STRIPPED | RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;

	return mbuf->pool == all->mempool && mbuf->nb_segs == 1 && rte_mbuf_refcnt_read(mbuf) == 1 &&
	       (mbuf->ol_flags & odd) == 0;
}

/* Receives up to `want` (at most BURST) frames; `cache` is the calling worker's. Of those that are not plain the id is
 * NONE, and their headers are put into `odd` in order, counted by `odds`. */
uint32_t stoa_dpdk_receive(const struct stock *stock, void *cache, uint16_t port, uint16_t queue, uint32_t want,
			   uint32_t *ids, uint16_t *offsets, uint16_t *lengths, struct rte_mbuf **odd, uint32_t *odds)
{
	struct rte_mbuf *burst[BURST];
	uint32_t got = 0;
	uint16_t now;

	open_stash(stock, cache);
	/* Some drivers give 32 at a time at most. */
	do {
		now = rte_eth_rx_burst(port, queue, burst + got, want - got);
		got += now;
	} while (now >= 32 && got < want);
	close_stash();
	for (uint32_t i = 0; i < got; i++) {
		struct rte_mbuf *mbuf = burst[i];

		offsets[i] = mbuf->data_off;
		lengths[i] = mbuf->data_len;
		if (likely(is_plain(&stock->headers, mbuf))) {
			ids[i] = id_of(&stock->headers, mbuf);
		} else {
			ids[i] = NONE;
			odd[(*odds)++] = mbuf;
		}
	}
	return got;
}

/* Whether a VLAN tag is beside the frame. */
static int is_stripped(const struct rte_mbuf *mbuf)
{
	return mbuf->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED && mbuf->pkt_len >= 2 * RTE_ETHER_ADDR_LEN;
}

/* Bytes of a frame that is not plain, its tag included. */
uint32_t stoa_dpdk_length(const struct rte_mbuf *mbuf)
{
	return mbuf->pkt_len + (is_stripped(mbuf) ? RTE_VLAN_HLEN : 0);
}

static void copy(const struct rte_mbuf *mbuf, uint32_t from, uint32_t count, uint8_t *to)
{
	const void *at = rte_pktmbuf_read(mbuf, from, count, to);

	if (at != NULL && at != to)
		memcpy(to, at, count);
}

/* Copies such a frame to `to`, which has room for all of it, and frees it. */
void stoa_dpdk_copy_out(struct rte_mbuf *mbuf, uint8_t *to)
{
	uint32_t addresses = 0;

	if (is_stripped(mbuf)) {
		const uint16_t tag[2] = {rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN), rte_cpu_to_be_16(mbuf->vlan_tci)};

		addresses = 2 * RTE_ETHER_ADDR_LEN;
		copy(mbuf, 0, addresses, to);
		memcpy(to + addresses, tag, sizeof(tag));
		to += addresses + sizeof(tag);
	}
	copy(mbuf, addresses, mbuf->pkt_len - addresses, to);
	rte_pktmbuf_free(mbuf);
}

void stoa_dpdk_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

/* Sends up to BURST frames that lie in buffers of ours; `cache` is the calling worker's. Returns how many the device
 * took, which owns their buffers from then on. */
uint32_t stoa_dpdk_transmit(const struct stock *stock, void *cache, uint16_t port, uint16_t queue, uint32_t count,
			    const uint32_t *ids, const uint16_t *offsets, const uint16_t *lengths)
{
	struct rte_mbuf *burst[BURST];
	uint32_t sent = 0;
	uint16_t now;

	for (uint32_t i = 0; i < count; i++) {
		struct rte_mbuf *mbuf = header(&stock->headers, ids[i]);

		burst[i] = mbuf;
		/* A free header has one reference, one segment and nothing behind it: DPDK keeps that. */
		mbuf->data_off = offsets[i];
		mbuf->port = RTE_MBUF_PORT_INVALID;
		mbuf->ol_flags = 0;
		mbuf->packet_type = 0;
		mbuf->pkt_len = lengths[i];
		mbuf->data_len = lengths[i];
	}
	open_stash(stock, cache);
	do {
		now = rte_eth_tx_burst(port, queue, burst + sent, count - sent);
		sent += now;
	} while (now > 0 && sent < count);
	close_stash();
	return sent;
}
