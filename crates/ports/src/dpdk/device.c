/* Starting DPDK, and its devices. */
#define _GNU_SOURCE
#define ALLOW_EXPERIMENTAL_API /* rte_dev_dma_map, as it is since 18.11 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>

#include "shim.h"

typedef void (*log_fn)(const char *text, size_t length);

static ssize_t write_log(void *report, const char *text, size_t length)
{
	((log_fn)report)(text, length);
	return length;
}

int stoa_dpdk_start(int count, char **words, log_fn report)
{
	cookie_io_functions_t listener = {.write = write_log};
	FILE *log = fopencookie((void *)report, "w", listener);

	if (log == NULL)
		return -errno;
	setvbuf(log, NULL, _IOLBF, BUFSIZ);
	rte_openlog_stream(log);
	rte_errno = 0;
	if (rte_eal_init(count, words) < 0)
		return rte_errno != 0 ? -rte_errno : -EIO;
	/* Without files that are shared nothing is in this folder. */
	(void)rmdir(rte_eal_get_runtime_dir());
	return 0;
}

/* Makes the device known to DPDK; `name`: what it is called there. */
int stoa_dpdk_probe(const char *arguments, const char *name, struct device *device)
{
	struct rte_eth_dev_info info;
	uint32_t overhead;
	uint16_t port;
	int result = rte_dev_probe(arguments);

	if (result < 0)
		return result;
	RTE_ETH_FOREACH_DEV(port) {
		if (rte_eth_dev_info_get(port, &info) == 0 && strcmp(rte_dev_name(info.device), name) == 0)
			goto found;
	}
	return -ENODEV;
found:
	device->port = port;
	device->rx_queues_max = info.max_rx_queues;
	device->tx_queues_max = info.max_tx_queues;
	overhead = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
	if (info.max_mtu != UINT16_MAX && info.max_rx_pktlen > info.max_mtu)
		overhead = info.max_rx_pktlen - info.max_mtu;
	device->mtu_min = info.min_mtu;
	device->mtu_max = RTE_MIN((uint32_t)info.max_mtu, info.max_rx_pktlen - overhead);
	device->is_virtual = strcmp(rte_bus_name(rte_dev_bus(info.device)), "vdev") == 0;
	snprintf(device->driver, sizeof(device->driver), "%s", info.driver_name);
	return 0;
}

static int set_up_queues(struct device *device, const struct wish *wish, struct rte_mempool *mempool)
{
	uint16_t rx_ring = wish->ring, tx_ring = wish->ring;
	/* Rings lie on the device's NUMA node, if DPDK has memory there. */
	int node = rte_eth_dev_socket_id(device->port);
	struct rte_eth_dev_info info;
	int result = rte_eth_dev_info_get(device->port, &info);

	if (result < 0)
		return result;
	if (wish->ring == 0) {
		rx_ring = info.default_rxportconf.ring_size ? info.default_rxportconf.ring_size : 1024;
		tx_ring = info.default_txportconf.ring_size ? info.default_txportconf.ring_size : 1024;
	}
	result = rte_eth_dev_adjust_nb_rx_tx_desc(device->port, &rx_ring, &tx_ring);
	for (uint16_t queue = 0; queue < wish->rx_queues && result == 0; queue++) {
		result = rte_eth_rx_queue_setup(device->port, queue, rx_ring, node, NULL, mempool);
		if (result < 0 && node != SOCKET_ID_ANY)
			result = rte_eth_rx_queue_setup(device->port, queue, rx_ring, SOCKET_ID_ANY, NULL, mempool);
	}
	for (uint16_t queue = 0; queue < wish->tx_queues && result == 0; queue++) {
		result = rte_eth_tx_queue_setup(device->port, queue, tx_ring, node, NULL);
		if (result < 0 && node != SOCKET_ID_ANY)
			result = rte_eth_tx_queue_setup(device->port, queue, tx_ring, SOCKET_ID_ANY, NULL);
	}
	device->rx_ring = rx_ring;
	device->tx_ring = tx_ring;
	return result;
}

/* Sets the device up and starts it. */
int stoa_dpdk_configure(struct device *device, const struct wish *wish, const struct stock *stock)
{
	const uint64_t flows = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;
	struct rte_eth_conf conf = {.rxmode.mtu = wish->mtu};
	struct rte_mempool *mempool = stock->headers.mempool;
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	uint16_t mtu;
	int result = rte_eth_dev_info_get(device->port, &info);

	if (result < 0)
		return result;
	if (!device->is_virtual) {
		const struct rte_mempool_memhdr *memory = STAILQ_FIRST(&mempool->mem_list);

		if (rte_eal_iova_mode() != RTE_IOVA_VA)
			return -ENOTSUP;
		/* It does not always say why: what was there before is no reason. */
		rte_errno = 0;
		result = rte_dev_dma_map(info.device, memory->addr, memory->iova, memory->len);
		/* Another device's mapping serves all devices in a container. */
		if (result < 0 && rte_errno != EEXIST && rte_errno != ENOTSUP)
			return rte_errno != 0 ? -rte_errno : -EIO;
	}
	conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	if (wish->longest + RTE_PKTMBUF_HEADROOM > rte_pktmbuf_data_room_size(mempool))
		conf.rxmode.offloads = info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
	device->spreads = wish->rx_queues > 1 && (info.flow_type_rss_offloads & flows) != 0;
	if (device->spreads) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & flows;
	}
	result = rte_eth_dev_configure(device->port, wish->rx_queues, wish->tx_queues, &conf);
	if (result < 0)
		return result;
	if (wish->mtu != 0) {
		result = rte_eth_dev_set_mtu(device->port, wish->mtu);
		if (result < 0 && result != -ENOTSUP)
			return result;
	}
	result = set_up_queues(device, wish, mempool);
	if (result == 0)
		result = rte_eth_dev_start(device->port);
	if (result < 0)
		return result;
	/* Frames for other addresses, of a gateway that several routers share, say: ours to sort out. */
	(void)rte_eth_promiscuous_enable(device->port);
	if (rte_eth_macaddr_get(device->port, &mac) == 0)
		memcpy(device->mac, mac.addr_bytes, sizeof(device->mac));
	device->mtu = rte_eth_dev_get_mtu(device->port, &mtu) == 0 ? mtu : RTE_ETHER_MTU;
	return 0;
}

/* Frees what waits in a receive queue, of as much as any ring holds. */
static void drain(uint16_t port, uint16_t queue)
{
	struct rte_mbuf *burst[BURST];
	uint16_t got = BURST;

	for (uint32_t drained = 0; got > 0 && drained < UINT16_MAX; drained += got) {
		got = rte_eth_rx_burst(port, queue, burst, BURST);
		rte_pktmbuf_free_bulk(burst, got);
	}
}

/* Ends the device; its buffers come back. Of `queues` what waits there is freed first: there are drivers that forget
 * it. */
void stoa_dpdk_close(uint16_t port, uint16_t queues)
{
	struct rte_eth_dev_info info;
	struct rte_device *device = rte_eth_dev_info_get(port, &info) == 0 ? info.device : NULL;

	for (uint16_t queue = 0; queue < queues; queue++)
		drain(port, queue);
	(void)rte_eth_dev_stop(port);
	(void)rte_eth_dev_close(port);
	if (device != NULL)
		(void)rte_dev_remove(device);
}

/* Whether the link is up; `speed` in Mbit/s, 0: unknown. A device that is gone has none. */
int stoa_dpdk_link(uint16_t port, uint32_t *speed)
{
	struct rte_eth_link link = {0};

	if (rte_eth_dev_is_removed(port) || rte_eth_link_get_nowait(port, &link) < 0)
		return 0;
	*speed = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
	return link.link_status == RTE_ETH_LINK_UP;
}

void stoa_dpdk_set_link(uint16_t port, int up)
{
	(void)(up ? rte_eth_dev_set_link_up(port) : rte_eth_dev_set_link_down(port));
}

/* Frames that the device or its driver shed. */
uint64_t stoa_dpdk_missed(uint16_t port)
{
	struct rte_eth_stats stats;

	return rte_eth_stats_get(port, &stats) == 0 ? stats.imissed + stats.ierrors + stats.rx_nombuf : 0;
}
