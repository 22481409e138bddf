"""The catalogue of scripts/bench: what is measured, by which command, beside which bar (target)."""


def forward(title, bar, *options, field="cycles_per_packet", against=None, beyond=None, most=True, section="figures"):
    """A case of `stoa bench forward`; `against` names the case that its result is a multiple of, `beyond` the one that
    is subtracted."""
    return {"title": title, "bar": bar, "section": section, "command": "stoa bench forward", "options": list(options),
            "figures": [(title, field, bar, most, 1, (against, beyond))]}


def table(options, *figures, of="table", section="figures"):
    """A case of `stoa bench table` or of another table, with several results: (title, field, bar or none, most,
    unit)."""
    return {"title": figures[0][0], "section": section, "command": f"stoa bench {of}", "options": list(options),
            "figures": [(*figure, (None, None)) for figure in figures]}


def flow_cases():
    """Rules, flows and NAT: cycles more than the same packets take without them; the tables alone."""
    loads = {"one flow": [], "4,096 flows": ["--flows", "4096"], "65,536 flows": ["--flows", "65536"],
             "1M flows": ["--flows", "1000000"],
             "10M flows": ["--routes", "1000", "--destinations", "random", "--flows", "11"],
             "all packets different": ["--routes", "1000", "--destinations", "random"]}

    def plain(load):
        return f"IPv4 64 B, {load}"

    def more(what, bars, *options):
        return [forward(f"{what}, {load}, cycles more than without", bar, *loads[load], *options,
                        field="added_cycles_per_packet", section="flows") for load, bar in bars.items()]

    def exported(what, *options):
        """Flows that are exported, too: cycles more than the same flows take without."""
        return [forward(f"{what} and IPFIX, {load}, cycles more than without IPFIX", 1, *loads[load], *options, "--export",
                        field="added_cycles_per_packet", beyond=f"{what}, {load}, cycles more than without",
                        section="flows") for load in ("one flow", "4,096 flows", "65,536 flows")]

    def two_workers(what, load, *options):
        """Beside one worker."""
        return forward(f"{what}, {load}, two workers, multiple of one's rate", 1.8, *loads[load], *options,
                       "--workers", "2", "--cpus", "0,1", field="mpps",
                       against=f"{what}, {load}, cycles more than without", most=False, section="flows")

    def rules(*bars):
        return dict(zip(("one flow", "4,096 flows", "65,536 flows", "1M flows", "10M flows"), bars))

    def of_table(name, options, *figures):
        return table(options, *figures, of=name, section="flows")

    def compiled(count, seconds):
        title = f"an access list of {count:,} rules"
        return of_table("classify", ["--rules", f"acl:{count}"],
                        (f"{title}, look-up, cycles", "cycles_per_lookup", None, True, 1),
                        (f"{title}, compiled, s", "build_seconds", seconds, True, 1),
                        (f"{title}, one rule changed, ms", "update_ms", 10, True, 1),
                        (f"{title}, bytes for each", "bytes_per_rule", None, True, 1))

    def flow_table(title, creates, size, *options):
        return of_table("flow", ["--flows", "10000000", "--rounds", "1", *options],
                        (f"10M {title}, created and collected, M/s", "creates_per_second", creates, False, 1e6),
                        (f"10M {title}, look-up, cycles", "cycles_per_lookup", None, True, 1),
                        (f"10M {title}, bytes for each", "bytes_per_flow", size, True, 1))

    def new_flows(title, bar, *options):
        return of_table("forward", ["--flows", "new", *options],
                        (f"{title}, each packet a new flow, M/s", "creates_per_second", bar, False, 1e6),
                        (f"{title}, each packet a new flow, cycles more than without", "added_cycles_per_packet", None,
                         True, 1))

    def nat64(*loads_of):
        """Both directions beside those of NAT44: the same flow table and mappings, and another header. The bar is 15
        more (decision 85)."""
        cases = []
        for load in loads_of:
            flows = loads[load] or ["--flows", "1"]
            back = f"NAT44, back, {load}, cycles more than without"
            out = f"NAT44, {load}, cycles more than without"
            cases.append(forward(back, None, *flows, "--nat44", "--answers", beyond=plain(load), section="flows"))
            for of, against, options in (("", out, []), ("back, ", back, ["--answers"])):
                cases.append(forward(f"NAT64, {of}{load}, cycles more than NAT44", 15, *flows, "--nat64", *options,
                                     "--frame", "78", beyond=against, section="flows"))
        return cases

    def siit(*loads_of):
        """Both directions, beside the same packets without translation: one mapping, no flows (decision 89)."""
        cases = []
        for load in loads_of:
            flows = loads[load] or ["--flows", "1"]
            for of, options in (("", []), ("back, ", ["--answers"])):
                cases.append(forward(f"SIIT, {of}{load}, cycles more than without", None, *flows, "--siit", *options,
                                     "--frame", "78", beyond=plain(load), section="flows"))
        return cases

    different = "all packets different"
    hundred_thousand = f"IPv4 64 B, {different}, 100,000 rules"
    stateful = ["--acl", "acl:600", "--stateful"]
    return [
        *(forward(plain(load), None, *options, section="flows") for load, options in loads.items()),
        *more("600 rules", {**rules(25, 32, 40), different: 55}, "--acl", "acl:600"),
        *more("600 rules of a firewall", {different: None}, "--acl", "firewall:600"),
        *more("600 rules of a chain", {different: None}, "--acl", "chain:600"),
        *more("10,000 rules", {different: 120}, "--acl", "acl:10000"),
        *more("10,000 rules of a firewall", {different: None}, "--acl", "firewall:10000"),
        *more("100,000 rules", {different: 250}, "--acl", "acl:100000"),
        forward(hundred_thousand, None, *loads[different], "--acl", "acl:100000", section="flows"),
        forward("100,000 rules, ten of them changed in a second, multiple of the quiet cycles", 1.1, *loads[different],
                "--acl", "acl:100000", "--rule-rate", "10", against=hundred_thousand, section="flows"),
        *more("600 stateful rules, established", rules(15, 20, 35, 50, 75), *stateful),
        *more("100,000 stateful rules, established", rules(15, 20, 35), "--acl", "acl:100000", "--stateful"),
        *more("NAT44", rules(20, 35, 60, 70, 100), "--nat44"),
        *nat64("one flow", "4,096 flows", "65,536 flows"),
        *siit("one flow", "4,096 flows", "65,536 flows"),
        *exported("600 stateful rules, established", *stateful),
        *exported("NAT44", "--nat44"),
        two_workers("600 rules", "4,096 flows", "--acl", "acl:600"),
        two_workers("600 stateful rules, established", "65,536 flows", *stateful),
        two_workers("NAT44", "65,536 flows", "--nat44"),
        new_flows("600 stateful rules", 4, *stateful),
        new_flows("NAT44 and 600 stateful rules", 2.5, "--nat44", *stateful),
        forward("SYNs answered by cookies, M/s", 15, *stateful, "--zones", "--syn-cookies", "--routes", "1024",
                "--destinations", "random", field="mpps", most=False, section="flows"),
        compiled(600, None), compiled(10_000, 0.2), compiled(100_000, 2),
        flow_table("IPv4 flows", 4, 96), flow_table("translated IPv4 flows", 2.5, 128, "--translated"),
        flow_table("IPv6 flows", None, 160, "--family", "ip6"),
        of_table("flow", ["--export"], ("IPFIX, records a second, M", "records_per_second", 0.5, False, 1e6)),
    ]


def interfaces(count, *figures):
    """A case of `stoa bench interfaces`, with several results: (title, field, unit)."""
    return {"title": f"{count} sub-interfaces", "section": "figures", "command": "stoa bench interfaces",
            "options": ["--interfaces", count],
            "figures": [(title, field, None, True, unit, (None, None)) for title, field, unit in figures]}


# What a round of scripts/bench-commit changes, and how its row is named.
CHANGES = {
    "description": "description of an interface",
    "mtu": "MTU of an interface",
    "address": "a new address",
    "vrrp": "priority of a virtual router",
    "bfd": "multiplier of a BFD session",
    "system": "a leaf of stoa-system",
    "route": "next hop of a static route",
    "new-route": "a new static route",
    "less-route": "a static route less",
    "bgp": "stale time of a BGP route source",
    "policy": "DSCP of a policy rule",
}


def commits(among, *options, mib=None):
    """A case of scripts/bench-commit: the median of `stoa commit`, from start to end, for each kind of leaf."""
    figures = [(f"commit among {among}: {what}, ms", f"{change}_ms", 100, True, 1, (None, None))
               for change, what in CHANGES.items()]
    memory = (f"controller with {among}, after those commits, MiB", "mib", mib, True, 1, (None, None))
    return {"title": f"commit among {among}", "section": "commits", "command": "scripts/bench-commit",
            "options": ["--change", "all", *options], "figures": [*figures, memory]}


def delta(*figures):
    """A case of `stoa bench delta`, with several results: (title, field, bar)."""
    return {"title": "rows by a delta stream", "section": "commits", "command": "stoa bench delta", "options": [],
            "figures": [(title, field, bar, True, 1, (None, None)) for title, field, bar in figures]}


ONE, QUIET = "IPv4 64 B, 1 route", "IPv4 64 B, 1M routes, 1,024 destinations"
TWO_HOPS = "IPv4 64 B, 1M routes, 1,024 destinations, 2 next hops"
EIGHT_HOPS = "IPv4 64 B, 1M routes, 1,024 destinations, 8 next hops"
SOURCES = "IPv4 64 B, real table, random sources and destinations"
MILLION = ["--routes", "1000000", "--destinations", "1024"]
REAL4 = ["--prefixes", "{ip4}", "--destinations", "random"]
REAL6 = ["--family", "ip6", "--prefixes", "{ip6}", "--destinations", "random"]
HOPS = ["--next-hops", "64"]
TUNNELS = ["--tunnels", "10000", "--routes", "10000", "--destinations", "random"]
DOUBLE_TAGGED = "4096"
CASES = [
    forward(ONE, 17.5),
    forward(QUIET, 19, *MILLION),
    forward("IPv4 64 B, real table, random destinations", 21,
            "--prefixes", "{ip4}", "--destinations", "random"),
    forward("IPv6 78 B, 1 route", 19, "--family", "ip6"),
    forward("IPv6 78 B, real table, random destinations", 45,
            "--family", "ip6", "--prefixes", "{ip6}", "--destinations", "random"),
    forward("IMIX2, real tables, 1,024 destinations", 30,
            "--mix", "imix2", "--prefixes", "{ip4},{ip6}", "--destinations", "1024"),
    # Half IPv4 and half IPv6: the bar is the mean of the two bars for random destinations above.
    forward("IMIX2, real tables, random destinations", 33,
            "--mix", "imix2", "--prefixes", "{ip4},{ip6}", "--destinations", "random"),
    forward("IPv4 64 B, VLAN in and out", 22, "--vlan"),
    forward("100k route changes/s, multiple of the quiet cycles", 1.1, *MILLION,
            "--update-rate", "100000", against=QUIET),
    forward("two workers, multiple of one's rate", 1.9, "--workers", "2", "--cpus", "0,1",
            field="mpps", against=ONE, most=False),
    forward("a feature on another interface, cycles more than without", 0.3,
            "--feature-elsewhere", "urpf-strict", beyond=ONE),
    forward("a feature that does nothing, cycles more than without", 3, "--feature", "noop", beyond=ONE),
    forward("the same on ethernet-input, cycles more than without", None, "--feature", "noop-ethernet", beyond=ONE),
    forward("the same on ip4-output, cycles more than without", None, "--feature", "noop-output", beyond=ONE),
    forward("the same on port-output, cycles more than without", None, "--feature", "noop-port", beyond=ONE),
    forward("login, senders that have logged in, cycles more than without", None, "--feature", "login", beyond=ONE),
    forward("login, receivers that have logged in, cycles more than without", None, "--feature", "login-output",
            beyond=ONE),
    forward("the flow hash of each packet, cycles more than without", None, "--feature", "flow", beyond=ONE),
    forward(SOURCES, None, *REAL4, "--random-sources"),
    forward("strict uRPF, real table, random sources and destinations, cycles more than without", 14,
            *REAL4, "--feature", "urpf-strict", beyond=SOURCES),
    # A port has a next hop at least: what ports cost is what they cost beyond as many next hops on one port.
    forward(TWO_HOPS, None, *MILLION, "--next-hops", "2"),
    forward(EIGHT_HOPS, None, *MILLION, "--next-hops", "8"),
    forward("2 ports, 1M routes, 1,024 destinations, multiple of 2 next hops on one port", 1.1, *MILLION,
            "--ports", "2", against=TWO_HOPS),
    # Routes to one next hop are merged as long as none of them changes: here the quiet table has as many levels.
    forward("100k route changes/s, 2 next hops, multiple of the quiet cycles", 1.1, *MILLION, "--next-hops", "2",
            "--update-rate", "100000", against=TWO_HOPS),
    forward("8 ports, 1M routes, 1,024 destinations, multiple of 8 next hops on one port", 1.15, *MILLION,
            "--ports", "8", against=EIGHT_HOPS),
    forward("8 ports, packets of several in each vector, multiple of 8 next hops on one port", None, *MILLION,
            "--ports", "8", "--burst", "32", against=EIGHT_HOPS),
    forward("2 ports, one destination each, multiple of one port's cycles", 1.1, "--ports", "2", against=ONE),
    forward("8 ports, one destination each, multiple of one port's cycles", 1.15, "--ports", "8", against=ONE),
    forward("1,000 VLANs mixed", 26, "--vlans", "1000"),
    forward("1,000 VLANs mixed, in and out", None, "--vlans", "1000", "--routes", "1000",
            "--destinations", "1000", "--next-hops", "1000"),
    forward("4,096 double-tagged VLANs (QinQ) mixed", 32, "--vlans", DOUBLE_TAGGED, "--qinq"),
    forward("16 VRFs mixed, 1,000 routes each", 40, "--vrfs", "16", "--routes", "1000",
            "--destinations", "random"),
    forward("10,000 GRE tunnels mixed, encapsulation", 60, *TUNNELS),
    forward("10,000 GRE tunnels mixed, decapsulation", 60, *TUNNELS, "--direction", "decapsulate"),
    forward("one GRE tunnel, encapsulation", None, "--tunnels", "1"),
    forward("one GRE tunnel, decapsulation", None, "--tunnels", "1", "--direction", "decapsulate"),
    forward("IPv4 64 B, real table, random destinations, 64 next hops", 27, *REAL4, *HOPS),
    forward("IPv4 64 B, real table, random destinations, 64 next hops, 4 ports", 30, *REAL4, *HOPS,
            "--ports", "4"),
    forward("IPv6 78 B, real table, random destinations, 64 next hops", 36, *REAL6, *HOPS),
    forward("IPv6 78 B, real table, random destinations, 64 next hops, 4 ports", 40, *REAL6, *HOPS,
            "--ports", "4"),
    forward("a real edge: 4 ports, 64 VLANs each, real tables, 64 next hops, IMIX2, loose uRPF", 60,
            "--ports", "4", "--vlans", "64", "--prefixes", "{ip4},{ip6}", "--destinations", "random",
            *HOPS, "--mix", "imix2", "--feature", "urpf-loose"),
    # One round per run: there are several runs.
    table(["--prefixes", "{ip4}", "--keys", "random", "--rounds", "1"],
          ("IPv4 look-ups, real table, random keys, M/s", "mlps", 250, False, 1)),
    table(["--prefixes", "{ip4}", "--keys", "in-table", "--rounds", "1"],
          ("IPv4 look-ups, real table, in-table keys, M/s", "mlps", 150, False, 1),
          ("IPv4 single insertions, M/s", "inserts_per_second", 2, False, 1e6),
          ("IPv4 bulk insertions, M/s", "bulk_inserts_per_second", 5, False, 1e6)),
    table(["--family", "ip6", "--prefixes", "synthetic:200000", "--keys", "in-table", "--rounds", "1"],
          ("IPv6 look-ups, 200k prefixes, in-table keys, M/s", "mlps", 120, False, 1)),
    table(["--family", "ip6", "--prefixes", "synthetic:1000000", "--keys", "in-table", "--rounds", "1"],
          ("IPv6 look-ups, 1M prefixes, in-table keys, M/s", "mlps", None, False, 1),
          ("bytes per IPv6 route at 1M, with bookkeeping", "bytes_per_route_all", None, True, 1)),
    table(["--prefixes", "synthetic:1000000", "--rounds", "1"],
          ("bytes per IPv4 route at 1M, look-up structure", "bytes_per_route", 10, True, 1),
          ("bytes per IPv4 route at 1M, with bookkeeping", "bytes_per_route_all", 40, True, 1)),
    table(["--prefixes", "synthetic:6000000", "--rounds", "1"],
          ("MB for 6M IPv4 routes, with bookkeeping", "memory_bytes", 300, True, 1e6),
          ("all workers follow a next hop of 6M routes, ms, slowest of 1,000", "redirect_us_most", 1, True, 1e3)),
    interfaces("1000", ("one more among 1,000 sub-interfaces, ms", "change_add_ms", 1)),
    interfaces("10000", ("one more among 10,000 sub-interfaces, ms", "change_add_ms", 1)),
    interfaces("60000",
               ("60,000 sub-interfaces applied, s", "apply_ms", 1e3),
               ("one more among 60,000 sub-interfaces, ms", "change_add_ms", 1),
               ("one less among 60,000 sub-interfaces, ms", "change_remove_ms", 1),
               ("another address of one of 60,000 sub-interfaces, ms", "change_address_ms", 1),
               ("a route among the 240,000 of 60,000 sub-interfaces, ms", "change_route_ms", 1),
               ("one more among 60,000 sub-interfaces, by the whole state, ms", "add_ms", 1),
               ("slowest page of the list of 60,000 sub-interfaces, ms", "page_ms", 1),
               ("bytes per sub-interface at 60,000, routes included", "bytes_per_interface", 1)),
    *flow_cases(),
    commits("200,000 static routes", "--routes", "200000", mib=300),
    commits("65,536 interfaces", "--routes", "0", "--interfaces", "65536"),
    delta(("1,000,000 rows by a delta stream, in force, verified by digest, s", "all_s", 2),
          ("one row in a thousand changed, the same, s", "changed_s", None),
          ("1,000,000 rows after a restart of the controller, the same, s", "controller_s", 5),
          ("1,000,000 rows after a restart of the forwarder, the same, s", "forwarder_s", 5)),
]
