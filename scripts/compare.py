"""Common parts of the comparisons in scripts/bench-compare: runs, tables, plot, records.

A comparison is a module with DEVICES, SIZES, NAME, MARKS, PLOT, `measure(what, size, given)`, `limits(run)`,
`facts()` and `words(facts, made)`.
"""

import datetime
import importlib.machinery
import importlib.util
import json
import os
import signal
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
README = os.path.join(ROOT, "bench", "README.md")
# Destination addresses of a load.
DESTINATIONS = 64
# Huge pages of 2 MiB for DPDK during the measurement.
HUGE_PAGES = 384
HUGE = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
# Timeout in seconds for starting a device, in addition to the load's own timeout.
PATIENCE = 60

loader = importlib.machinery.SourceFileLoader("bench", os.path.join(ROOT, "scripts", "bench"))
bench = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", loader))
loader.exec_module(bench)


def nodes(given, place):
    """Cycles per packet of the graph nodes that forwarded packets."""
    done = subprocess.run([given.binary, "show", "nodes", "--json", "--socket", f"{place}/stoa.sock"],
                          capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != 0:
        return {}
    answer = json.loads(done.stdout)
    return {node["name"]: round(int(node["cycles"]) / int(node["packets"]), 2)
            for node in answer["nodes"] if int(node.get("packets", 0)) > 10_000}


def begin(command, log, place):
    """Starts a device as the leader of a process group."""
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                            env={**os.environ, "XDG_RUNTIME_DIR": place})


def end(process):
    """Stops a device and its children; a DPDK program that waits for a link must be killed."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=3)
    except subprocess.TimeoutExpired:
        process.kill()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def reserve():
    """Reserves the huge pages for DPDK; returns the previous number."""
    before = int(bench.read(HUGE, "0"))
    if before < HUGE_PAGES and os.geteuid() == 0 and os.path.exists(HUGE):
        with open(HUGE, "w", encoding="ascii") as file:
            file.write(str(HUGE_PAGES))
    return before


def release(before):
    """Restores the number of huge pages."""
    if int(bench.read(HUGE, "0")) != before:
        with open(HUGE, "w", encoding="ascii") as file:
            file.write(str(before))


def tsc(given):
    """Ticks of the time stamp counter per second."""
    return bench.measure(given.binary, {"command": "stoa bench forward", "options": []}, {}, 1)["tsc_hz"]


def bytes_of(cell, run):
    """Bytes of a frame with FCS; the mean for a mix."""
    return cell["size"] if isinstance(cell["size"], int) else run["bytes"] + 4


def order_of(size):
    """Sorts mixes after sizes."""
    return isinstance(size, str), size


def title(size):
    return f"{size} B" if isinstance(size, int) else size.upper()


def rows(it, cells, hz):
    """The result of each cell, with its ratio to the first device at the same size."""
    made, ours = [], {}
    for cell in cells:
        run = max(cell["runs"], key=lambda run: run["mpps"])
        ours.setdefault(cell["size"], run["mpps"] if cell["device"] == it.DEVICES[0]["name"] else None)
        made.append({"device": cell["device"], "size": cell["size"], "mpps": run["mpps"],
                     "gbps": round(run["mpps"] * (bytes_of(cell, run) + 20) * 8 / 1000, 2),
                     "cycles": round(hz / run["mpps"] / 1e6, 1), "load_limits": it.limits(run),
                     **{key: run.get(key) for key in ("busy", "nodes", "user", "system")}})
    for row in made:
        row["of_stoa"] = round(row["mpps"] / ours[row["size"]], 3) if ours[row["size"]] else None
    return made


def table(made, field, digits):
    """A table with a row for each device and a column for each frame size."""
    sizes = sorted({row["size"] for row in made}, key=order_of)
    lines = ["| device | " + " | ".join(map(title, sizes)) + " |",
             "|---|" + "---|" * len(sizes)]
    for name in dict.fromkeys(row["device"] for row in made):
        cells = {row["size"]: row for row in made if row["device"] == name}
        words = [f"{cells[size][field]:.{digits}f}{'*' if cells[size]['load_limits'] else ''}"
                 if size in cells and cells[size][field] is not None else "–" for size in sizes]
        lines.append(f"| {name} | " + " | ".join(words) + " |")
    return "\n".join(lines) + "\n"


def header(facts, date, commit):
    """Machine and conditions of the measurement."""
    return (f"Measured {date} at {commit} on {facts['cpu']}, {facts['cpus']} CPUs"
            f"{' of a virtual machine' if facts['virtual'] else ''}, TSC {facts['tsc_hz'] / 1e9:.3f} GHz, "
            f"{facts['kernel']}, DPDK {facts['dpdk']}, {facts['huge_pages_for_dpdk']} huge pages of 2 MiB; "
            f"one way, {DESTINATIONS} destinations, least disturbed of {facts['runs']} runs.\n\n")


def draw(it, made):
    """Draws the plot with gnuplot, in colours that are legible on light and dark pages."""
    # The load alone is three times as fast, which would compress the other lines.
    names = [what["name"] for what in it.DEVICES if what["kind"] != "least"
             and any(row["device"] == what["name"] for row in made)]
    data, plots = "", []
    for number, name in enumerate(names):
        data += f"$d{number} << EOD\n" + "".join(
            f"{row['size']} {row['mpps']}\n" for row in made
            if row["device"] == name and isinstance(row["size"], int)) + "EOD\n"
        is_ours = name.startswith("Stoa")
        colour = ["#d9534f", "#e8963a", "#3f8fd2", "#6fb1e0", "#8a6fd1", "#3fa67a", "#7cc6a2",
                  "#b08d57", "#909090"][number % 9]
        plots.append(f"$d{number} using 1:2 with linespoints lw {3 if is_ours else 2} pt 7 ps 0.5 "
                     f"lc rgb '{colour}' title \"{name}\"")
    script = ("set terminal svg size 860,460 font 'sans-serif,13' dynamic noenhanced\n"
              "grey = '#808890'\nset border 3 lc rgb grey\nset tics nomirror textcolor rgb grey\n"
              "set grid ytics lc rgb '#808890' lw 0.3\nset key outside right textcolor rgb grey\n"
              "set xlabel 'bytes of a frame' textcolor rgb grey\n"
              "set ylabel 'million packets per second' textcolor rgb grey\n"
              "set yrange [0:*]\nset logscale x 2\nset xtics (64, 128, 256, 512, 1024, 1518)\n"
              f"set xrange [60:1600]\n{data}plot {', '.join(plots)}\n")
    done = subprocess.run(["gnuplot"], input=script, capture_output=True, text=True, check=True)
    with open(it.PLOT, "w", encoding="utf-8") as file:
        file.write(done.stdout)


def cells_of(it, earlier, given):
    """All cells in table order with their runs so far, and the cells to measure."""
    sizes = [int(size) if size.isdigit() else size for size in given.sizes.split(",") if size] or it.SIZES
    found = {(cell["device"], cell["size"]): cell for cell in earlier}
    order, selected = [], []
    for what in it.DEVICES:
        for size in it.SIZES + [size for size in sizes if size not in it.SIZES]:
            cell = found.get((what["name"], size), {"device": what["name"], "size": size, "runs": []})
            is_selected = size in sizes and given.only in what["name"]
            if is_selected:
                selected.append((what, cell))
            if is_selected or cell["runs"]:
                order.append(cell)
    selected.sort(key=lambda pair: order_of(pair[1]["size"]))
    return order, selected


def today():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")


def note(text, marks):
    """Replaces the text between two marks in bench/README.md."""
    with open(README, encoding="utf-8") as file:
        readme = file.read()
    before, rest = readme.split(marks[0], 1)
    after = rest.split(marks[1], 1)[1]
    with open(README, "w", encoding="utf-8") as file:
        file.write(before + marks[0] + text + marks[1] + after)


def write(it, path, results, text, made):
    """Writes results, plot and table."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**results, "figures": made}, file, indent=1)
        file.write("\n")
    draw(it, made)
    note(text, it.MARKS)
    print(f"bench-compare: written to {os.path.relpath(path)} and bench/README.md", file=sys.stderr)


def compare(it, given):
    """Measures the selected cells, prints the tables, and records the results."""
    results = {"cells": []}
    if given.into and os.path.exists(given.into):
        with open(given.into, encoding="utf-8") as file:
            results = json.load(file)
    head = bench.output("git", "rev-parse", "--short", "HEAD")
    if results.get("commit", head) != head:
        sys.exit(f"bench-compare: {given.into} is of commit {results['commit']}, HEAD is {head}: "
                 "use another file, or check out that commit")
    commit = head or "unknown"
    date = results.get("date") or today()
    facts = results.get("machine") or bench.machine()
    facts.setdefault("tsc_hz", tsc(given))
    facts["dpdk"] = bench.output("dpkg-query", "-W", "-f", "${Version}", "dpdk-dev")
    facts.update(it.facts())
    order, selected = cells_of(it, results["cells"], given)
    before = reserve()
    facts["huge_pages_for_dpdk"] = int(bench.read(HUGE, "0"))
    try:
        for number in range(given.runs):
            for what, cell in selected:
                run = it.measure(what, cell["size"], given)
                if run is None:
                    continue
                cell["runs"].append(run)
                print(f"bench-compare: run {number + 1} of {given.runs}: {title(cell['size'])}, {what['name']}: "
                      f"{run['mpps']:.3f} Mpps", file=sys.stderr)
    finally:
        release(before)
    order = [cell for cell in order if cell["runs"]]
    if not order:
        print(f"bench-compare: {it.NAME}: no results: all cells failed, or --only and --sizes match none", file=sys.stderr)
        return
    counts = sorted(len(cell["runs"]) for cell in order)
    facts["runs"] = " to ".join(str(count) for count in sorted({counts[0], counts[-1]}))
    made = rows(it, order, facts["tsc_hz"])
    text = header(facts, date, commit) + it.words(facts, made)
    print(text, end="")
    if given.print or given.only and not given.into:
        return
    path = given.into or os.path.join(ROOT, "bench", "results", f"{date}-{commit}-{it.NAME}.json")
    write(it, path, {"date": date, "commit": commit, "machine": facts, "cells": order}, text, made)
