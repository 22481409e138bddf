"""Devices under test over memif: Stoa, DPDK's l3fwd and testpmd, Open vSwitch with DPDK.

Each has two memif interfaces and one processor; the load (crates/memif/examples/load.rs) runs on the other one,
sends to the first interface, and counts the packets received from the second.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

from compare import DESTINATIONS, HUGE, HUGE_PAGES, PATIENCE, ROOT, begin, bench, end, nodes, table, title

NAME = "compare"
PLOT = os.path.join(ROOT, "bench", "compare.svg")
MARKS = ("<!-- compare -->\n", "<!-- /compare -->\n")
SIZES = [64, 128, 256, 512, 1024, 1280, 1518, "imix1", "imix2", "imix3"]
# If the load is busy for at least this share of its time, it may be the limit.
BUSY = 0.9
# Open vSwitch's forwarding thread uses the second queue; the main thread uses the first one.
QUEUES = {"ovs": 2}
# Debian's ovs-vswitchd with DPDK.
VSWITCHD = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
# One bridge, two ports, two flows; all processes end with this script.
OVS = """
set -eu
cd {place}
export OVS_RUNDIR=$PWD OVS_LOGDIR=$PWD OVS_DBDIR=$PWD
vsctl="ovs-vsctl --db=unix:$PWD/db.sock --timeout=10"
ovsdb-tool create conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server conf.db --remote=punix:db.sock --unixctl=$PWD/db.ctl &
running=$!
trap 'kill -9 $running' EXIT
trap 'exit 0' INT TERM
for try in $(seq 100); do [ -S db.sock ] && break; sleep 0.1; done
$vsctl --no-wait init
$vsctl --no-wait set Open_vSwitch . other_config:dpdk-init=true other_config:dpdk-socket-mem=600 \
    other_config:pmd-cpu-mask={mask} other_config:dpdk-lcore-mask={mask} \
    other_config:dpdk-extra="--single-file-segments --no-pci --no-telemetry"
{vswitchd} unix:db.sock --unixctl=$PWD/switch.ctl &
running="$running $!"
$vsctl add-br br0 -- set bridge br0 datapath_type=netdev
for port in in out; do
    device=net_memif_$port,role=server,id=0,socket=$PWD/$port.sock,socket-abstract=no
    $vsctl add-port br0 $port -- set Interface $port type=dpdk options:dpdk-devargs=$device
done
ovs-ofctl del-flows $PWD/br0.mgmt
ovs-ofctl add-flow $PWD/br0.mgmt in_port=in,actions=output:out
ovs-ofctl add-flow $PWD/br0.mgmt in_port=out,actions=output:in
wait
"""


def device(name, kind, listens, *options):
    """A device under test; `listens`: it is the master of both interfaces, and the load provides the memory."""
    return {"name": name, "kind": kind, "listens": listens, "options": list(options)}


# The first one is the baseline of the ratios.
DEVICES = [
    device("Stoa, routing", "stoa", True),
    device("Stoa, routing, as slave", "stoa", False),
    device("Stoa, L2 cross-connect", "stoa", True, "across"),
    device("Stoa, routing, over DPDK net_memif", "stoa", True, "dpdk"),
    device("DPDK l3fwd LPM", "l3fwd", True, "--lookup=lpm"),
    device("DPDK l3fwd LPM, as slave", "l3fwd", False, "--lookup=lpm"),
    device("DPDK l3fwd FIB", "l3fwd", True, "--lookup=fib"),
    device("DPDK testpmd io", "testpmd", True, "--forward-mode=io"),
    device("DPDK testpmd io, as slave", "testpmd", False, "--forward-mode=io"),
    device("DPDK testpmd macswap", "testpmd", True, "--forward-mode=macswap"),
    device("Open vSwitch with DPDK, L2", "ovs", True),
    device("(the load itself)", "least", True),
]


def stoa_port(place, listens, name):
    """An interface with Stoa's own memif driver."""
    return {"memif": {"socket": f"{place}/{name}.sock", "role": "master" if listens else "slave"}}


def dpdk_port(place, listens, name):
    """An interface of Stoa with DPDK's driver."""
    return {"dpdk": {"device": net_memif(place, listens, name)}}


def stoa_interface(name, port, **more):
    """One of the two interfaces."""
    return {
        "name": name, "type": "iana-if-type:ethernetCsmacd",
        "stoa-interfaces:mac-address": "02:fe:00:00:00:01",
        "stoa-interfaces:port": port,
        **more,
    }


def workers(cpu):
    return {"workers": {"count": 1, "cpus": [cpu], "polling": "polling"}}


def stoa_across(place, listens, cpu):
    """Two interfaces with an L2 cross-connect."""
    ends = [("in", "out"), ("out", "in")]
    return {
        "stoa-system:system": workers(cpu),
        "ietf-interfaces:interfaces": {"interface": [
            stoa_interface(name, stoa_port(place, listens, name), **{"stoa-interfaces:cross-connect": other})
            for name, other in ends]},
    }


def stoa_routing(place, listens, cpu, port=stoa_port):
    """Two interfaces, a route and a static neighbour of each family."""
    def family(address, length, neighbors):
        found = [{"ip": ip, "link-layer-address": "02:00:00:00:00:02"} for ip in neighbors]
        return {"forwarding": True, "neighbor": found,
                "address": [{"ip": address, "prefix-length": length}]}

    def interface(name, number, far):
        return stoa_interface(name, port(place, listens, name), **{
            "ietf-ip:ipv4": family(f"198.{number}.0.1", 24, ["198.19.0.2"] if far else []),
            "ietf-ip:ipv6": family(f"fd01:{number}::1", 64, ["fd01:19::2"] if far else [])})

    def routes(name, prefix, gateway):
        return {f"ietf-{name}-unicast-routing:{name}": {"route": [
            {"destination-prefix": prefix, "next-hop": {"next-hop-address": gateway}}]}}
    return {
        "stoa-system:system": workers(cpu),
        "ietf-interfaces:interfaces": {"interface": [
            interface("in", 18, False), interface("out", 19, True)]},
        "ietf-routing:routing": {"control-plane-protocols": {"control-plane-protocol": [{
            "type": "ietf-routing:static", "name": "static", "static-routes": {
                **routes("ipv4", "198.18.1.0/24", "198.19.0.2"),
                **routes("ipv6", "fd00::/64", "fd01:19::2")}}]}},
    }


def stoa_over_dpdk(place, listens, cpu):
    """As a router, with DPDK's driver."""
    return stoa_routing(place, listens, cpu, dpdk_port)


def net_memif(place, listens, name):
    """The DPDK device arguments of an interface."""
    return (f"net_memif_{name},role={'server' if listens else 'client'},id=0,"
            f"socket={place}/{name}.sock,socket-abstract=no")


def eal(place, listens, lcores):
    """The EAL options of every DPDK program."""
    huge = int(bench.read(HUGE, "0")) >= HUGE_PAGES
    memory = ["--in-memory", "--single-file-segments"] if huge else ["--no-huge", "--no-shconf"]
    ports = [word for name in ("in", "out") for word in ("--vdev", net_memif(place, listens, name))]
    return ["--no-pci", *memory, "-m", "512", "--no-telemetry", "--lcores", lcores, *ports]


def command(what, given, place, cpu):
    """The command line of a device."""
    listens, options = what["listens"], what["options"]
    if what["kind"] == "stoa":
        with open(f"{place}/stoa.json", "w", encoding="utf-8") as file:
            made = {"across": stoa_across, "dpdk": stoa_over_dpdk}.get("".join(options), stoa_routing)
            json.dump(made(place, listens, cpu), file)
        return [given.binary, "run", "--config", f"{place}/stoa.json", "--socket", f"{place}/stoa.sock",
                "--memif-folder", place]
    if what["kind"] == "least":
        return ["taskset", "-c", str(cpu), given.load, f"{place}/in.sock", f"{place}/out.sock",
                "master", str(what["size"]), "0"]
    if what["kind"] == "ovs":
        with open(f"{place}/ovs.sh", "w", encoding="ascii") as file:
            file.write(OVS.format(place=place, mask=hex(1 << cpu), vswitchd=VSWITCHD))
        return ["taskset", "-c", str(cpu), "sh", f"{place}/ovs.sh"]
    if what["kind"] == "testpmd":
        # The console needs an lcore of its own, which sleeps.
        return ["dpdk-testpmd", *eal(place, listens, f"(0,1)@{cpu}"), "--", "--total-num-mbufs=16384",
                "--stats-period", "1000", "--auto-start", "--no-lsc-interrupt", *options]
    for name, rules in (("4", "R198.18.1.0/24 1\nR198.19.0.0/24 0\n"), ("6", "Rfd00::/64 1\n")):
        with open(f"{place}/rules{name}", "w", encoding="utf-8") as file:
            file.write(rules)
    # One lcore: l3fwd needs a transmit queue per lcore, and the interfaces have one.
    return [given.l3fwd, *eal(place, listens, f"1@{cpu}"), "--", "-p", "3", "-P", "--parse-ptype",
            "--config=(0,0,1),(1,0,1)", f"--rule_ipv4={place}/rules4",
            f"--rule_ipv6={place}/rules6", *options]


def measure(what, size, given):
    """One run of a cell: a fresh device and a fresh load; `None` after an error, which is printed."""
    device_cpu, load_cpu = given.cpus.split(",")
    with tempfile.TemporaryDirectory(prefix="stoa-compare-") as place:
        log = open(f"{place}/log", "w+", encoding="utf-8", errors="replace")
        started = command({**what, "size": size}, given, place, int(device_cpu))
        role = "slave" if what["listens"] else "master"
        load = ["taskset", "-c", load_cpu, given.load, f"{place}/in.sock", f"{place}/out.sock", role,
                str(size), str(DESTINATIONS), str(given.seconds), str(QUEUES.get(what["kind"], 1))]
        # The listener starts first, because some devices try to connect only once.
        process = loading = None
        try:
            process = begin(started, log, place) if what["listens"] else None
            loading = subprocess.Popen(load, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if process is None:
                time.sleep(0.3)
                process = begin(started, log, place)
            out, err = loading.communicate(timeout=PATIENCE + given.seconds)
            if loading.returncode != 0:
                log.seek(0)
                print(f"bench-compare: {what['name']}, {title(size)}: {err.strip()}\n{' '.join(started)}\n"
                      f"{log.read()[-2000:]}", file=sys.stderr)
                return None
            run = json.loads(out)
            if what["kind"] == "stoa":
                run["nodes"] = nodes(given, place)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"bench-compare: {what['name']}, {title(size)}: {error}", file=sys.stderr)
            return None
        finally:
            if loading is not None:
                loading.kill()
            if process is not None:
                end(process)
            log.close()
    if run["foreign"] > 0 or not run["looked_at"]:
        print(f"bench-compare: {what['name']}, {title(size)}: no frames received, or unexpected ones: {run}",
              file=sys.stderr)
        return None
    return run


def limits(run):
    return run["busy"] >= BUSY


def facts():
    return {}


def words(facts, made):
    """The Markdown tables."""
    first = next((row for row in made if row["size"] == 64 and row["nodes"]), None)
    text = ("![Million packets per second by frame size](compare.svg)\n\n"
            f"Million packets per second (* the load was busy for {BUSY:.0%} of its time or more, and may be the limit):\n\n"
            f"{table(made, 'mpps', 2)}\nGbit/s on the wire, with 20 bytes between frames:\n\n{table(made, 'gbps', 1)}\n"
            f"TSC cycles per packet of the device's processor:\n\n{table(made, 'cycles', 0)}\n"
            f"Multiple of Stoa's rate:\n\n{table(made, 'of_stoa', 2)}")
    if first:
        parts = ", ".join(f"`{name}` {cycles:.1f}" for name, cycles in first["nodes"].items())
        text += f"\nStoa at 64 B, cycles per packet by node, over the whole run: {parts}.\n"
    return text
