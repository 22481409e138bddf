"""Devices under test on two veth pairs: the Linux kernel, Stoa and DPDK's testpmd.

    ┌──── namespace, processor 0 ────┐     ┌──── namespace, processor 1 ────┐
    │ load out ───────────────────── veth ──── in                           │
    │      back: counts, drops ───── veth ──── out       device under test  │
    └────────────────────────────────┘     └────────────────────────────────┘

The load (scripts/kernel_load.py) generates and counts frames in the kernel. As always with veth, the sending processor
also does the first half of the receive work: up to the packet ring, the AF_XDP socket, or all of the kernel's
forwarding, which then shares processor 0 with the load. The device's processor does the transmit work and the counting.
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import time

from compare import DESTINATIONS, HUGE, HUGE_PAGES, PATIENCE, ROOT, begin, bench, end, nodes, table

NAME = "compare-veth"
PLOT = os.path.join(ROOT, "bench", "compare-veth.svg")
MARKS = ("<!-- compare veth -->\n", "<!-- /compare veth -->\n")
SIZES = [64, 512, 1518]
# If at least this share of the sent frames returns, the load may be the limit.
NEARLY_ALL = 0.97
# Rules of an access list, and of nftables, that match no packet.
RULES = 600
MACS = {"in": "02:fe:00:00:00:01", "out": "02:fe:00:00:00:02", "back": "02:00:00:00:00:02"}


def device(name, kind, *options):
    return {"name": name, "kind": kind, "options": list(options)}


# The first one is the baseline of the ratios.
DEVICES = [
    device("Stoa, af-xdp", "stoa", "af-xdp"),
    device("Stoa, af-packet", "stoa", "af-packet"),
    device("DPDK testpmd io, net_af_xdp", "testpmd", "net_af_xdp{number},iface={name}"),
    device("DPDK testpmd io, net_af_packet", "testpmd", "net_af_packet{number},iface={name},qdisc_bypass=1"),
    device(f"Stoa, af-xdp, {RULES} rules", "stoa", "af-xdp", RULES),
    device("Linux", "linux", 0),
    device(f"Linux, {RULES} nft rules", "linux", RULES),
]


def run(*command, given=None):
    """Runs a command; raises OSError when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, input=given, timeout=PATIENCE)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


class Wires:
    """Two namespaces and two veth pairs between them; a context manager."""

    def __init__(self):
        self.load, self.device = (f"stoa-bench-{os.getpid()}-{end}" for end in ("load", "device"))

    def __enter__(self):
        sweep()
        atexit.register(self.remove)
        for name in (self.load, self.device):
            run("ip", "netns", "add", name)
            # Only test traffic is allowed on the links.
            run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1",
                "net.ipv6.conf.default.disable_ipv6=1")
        for theirs, ours in (("out", "in"), ("back", "out")):
            run("ip", "-n", self.load, "link", "add", theirs, "type", "veth", "peer", "name", ours,
                "netns", self.device)
            run("ip", "-n", self.device, "link", "set", ours, "address", MACS[ours], "up")
            run("ip", "-n", self.load, "link", "set", theirs, "up")
        run("ip", "-n", self.load, "link", "set", "lo", "up")
        run("ip", "-n", self.load, "link", "set", "back", "address", MACS["back"])
        # A veth device accepts frames redirected to its peer only with NAPI, which GRO enables.
        run("ip", "netns", "exec", self.device, "ethtool", "-K", "in", "gro", "on")
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        atexit.unregister(self.remove)
        for name in (self.load, self.device):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=PATIENCE)

    def within(self, name, *command):
        return ["ip", "netns", "exec", name, *command]


def sweep():
    """Removes the namespaces of killed runs."""
    for name in sorted(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else []:
        words = name.split("-")
        if words[:2] == ["stoa", "bench"] and len(words) == 4 and not os.path.exists(f"/proc/{words[2]}"):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=PATIENCE)


def networks(rules):
    """The sources and UDP ports that the rules drop: of no packet of the load."""
    return [(f"10.{number // 250}.{number % 250}.0/24", 10000 + number) for number in range(rules)]


def access_list(rules):
    """An access list at the first interface that drops what nftables drops."""
    dropped = [{"name": f"rule{port}", "matches": {
        "ipv4": {"source-ipv4-network": source}, "udp": {"destination-port": {"operator": "eq", "port": port}}},
        "actions": {"forwarding": "ietf-access-control-list:drop"}} for source, port in networks(rules)]
    rest = {"name": "rest", "actions": {"forwarding": "ietf-access-control-list:accept"}}
    return {"ietf-access-control-list:acls": {
        "acl": [{"name": "rules", "type": "ietf-access-control-list:ipv4-acl-type", "aces": {"ace": [*dropped, rest]}}],
        "attachment-points": {"interface": [
            {"interface-id": "in", "ingress": {"acl-sets": {"acl-set": [{"name": "rules"}]}}}]}}}


def stoa(wires, given, place, cpu, driver, rules=0):
    """One worker, two interfaces, one route, a static neighbour, and an access list with this many rules."""
    def interface(name, address, **ipv4):
        return {"name": name, "type": "iana-if-type:ethernetCsmacd",
                "stoa-interfaces:port": {driver: {"device": name}},
                "ietf-ip:ipv4": {"forwarding": True, **ipv4,
                                 "address": [{"ip": address, "prefix-length": 24}]}}
    neighbor = [{"ip": "198.19.0.2", "link-layer-address": MACS["back"]}]
    route = {"destination-prefix": "198.18.1.0/24", "next-hop": {"next-hop-address": "198.19.0.2"}}
    with open(f"{place}/stoa.json", "w", encoding="utf-8") as file:
        json.dump({
            "stoa-system:system": {"workers": {"count": 1, "cpus": [cpu], "polling": "polling"}},
            "ietf-interfaces:interfaces": {"interface": [
                interface("in", "198.18.0.1"), interface("out", "198.19.0.1", neighbor=neighbor)]},
            "ietf-routing:routing": {"control-plane-protocols": {"control-plane-protocol": [{
                "type": "ietf-routing:static", "name": "static", "static-routes": {
                    "ietf-ipv4-unicast-routing:ipv4": {"route": [route]}}}]}},
            **(access_list(rules) if rules else {}),
        }, file)
    return wires.within(wires.device, given.binary, "run", "--config", f"{place}/stoa.json",
                        "--socket", f"{place}/stoa.sock")


def testpmd(wires, vdev, cpu):
    """No router: frames received on one device are sent unmodified on the other."""
    vdevs = [word for number, name in enumerate(["in", "out"])
             for word in ("--vdev", vdev.format(number=number, name=name))]
    huge = int(bench.read(HUGE, "0")) >= HUGE_PAGES
    memory = ["--in-memory", "--single-file-segments"] if huge else ["--no-huge", "--no-shconf"]
    # The console needs an lcore of its own, which sleeps.
    return wires.within(
        wires.device, "dpdk-testpmd", "--no-pci", *memory, "-m", "512", "--no-telemetry", "--lcores",
        f"(0,1)@{cpu}", *vdevs, "--", "--total-num-mbufs=16384", "--stats-period", "1000", "--auto-start",
        "--no-lsc-interrupt", "--forward-mode=io")


def linux(wires, rules):
    """Configures the kernel to forward, with this many rules that match no packet."""
    ip = ["ip", "-n", wires.device]
    run(*ip, "address", "add", "198.18.0.1/24", "dev", "in")
    run(*ip, "address", "add", "198.19.0.1/24", "dev", "out")
    run(*wires.within(wires.device, "sysctl", "-qw", "net.ipv4.ip_forward=1",
                      "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.in.rp_filter=0"))
    run(*ip, "neighbour", "replace", "198.19.0.2", "lladdr", MACS["back"], "dev", "out", "nud", "permanent")
    run(*ip, "route", "add", "198.18.1.0/24", "via", "198.19.0.2")
    if rules:
        lines = [f"ip saddr {source} udp dport {port} drop" for source, port in networks(rules)]
        run(*wires.within(wires.device, "nft", "-f", "-"),
            given="table inet bench { chain forward { type filter hook forward priority 0; policy accept;\n"
                  + "\n".join(lines) + "\n}\n}\n")


def measure(what, size, given):
    """One run of a cell: fresh wires, a fresh device and a fresh load; `None` after an error, which is printed."""
    device_cpu, load_cpu = given.cpus.split(",")
    process = loading = None
    with tempfile.TemporaryDirectory(prefix="stoa-compare-") as place, Wires() as wires, \
            open(f"{place}/log", "w+", encoding="utf-8", errors="replace") as log:
        try:
            command = None
            if what["kind"] == "linux":
                linux(wires, *what["options"])
            elif what["kind"] == "stoa":
                command = stoa(wires, given, place, int(device_cpu), *what["options"])
            else:
                command = testpmd(wires, *what["options"], int(device_cpu))
            if command:
                process = begin(command, log, place)
            load = wires.within(
                wires.load, "taskset", "-c", load_cpu, sys.executable,
                os.path.join(ROOT, "scripts", "kernel_load.py"), "out", "back", MACS["in"], str(size),
                str(DESTINATIONS), str(given.seconds))
            loading = subprocess.Popen(load, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            out, err = loading.communicate(timeout=PATIENCE + given.seconds)
            if loading.returncode != 0:
                log.seek(0)
                print(f"bench-compare: {what['name']}, {size} B: {err.strip()}\n{' '.join(command or [])}\n"
                      f"{log.read()[-2000:]}", file=sys.stderr)
                return None
            found = json.loads(out)
            if what["kind"] == "stoa":
                found["nodes"] = nodes(given, place)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"bench-compare: {what['name']}, {size} B: {error}", file=sys.stderr)
            return None
        finally:
            if loading is not None:
                loading.kill()
                loading.wait()
            if process is not None:
                end(process)
    if found["foreign"] > 0:
        print(f"bench-compare: {what['name']}, {size} B: unexpected frames received: {found}", file=sys.stderr)
        return None
    return found


def limits(found):
    return found["mpps"] >= NEARLY_ALL * found["sent_mpps"]


def facts():
    return {"nft": bench.output("nft", "--version")}


def words(_, made):
    """The Markdown tables."""
    first = next((row for row in made if row["size"] == 64 and row["nodes"]), None)
    text = ("![Million packets per second by frame size](compare-veth.svg)\n\n"
            f"Million packets per second (* {NEARLY_ALL:.0%} or more of the offered packets returned: processor 0, "
            "which generates the frames and delivers them, may be the limit):\n\n"
            f"{table(made, 'mpps', 3)}\nTSC cycles between two packets:\n\n{table(made, 'cycles', 0)}\n"
            f"Multiple of the first row's rate:\n\n{table(made, 'of_stoa', 2)}")
    if first:
        parts = ", ".join(f"`{name}` {cycles:.1f}" for name, cycles in first["nodes"].items())
        text += (f"\n{first['device']} at 64 B, cycles per packet by node, over the whole run: {parts}. The system calls "
                 "are in `port-output`.\n")
    return text
