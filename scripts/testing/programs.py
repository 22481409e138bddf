"""Test programs as cargo builds them, and runs of those whose tests share a process."""

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from testing.stages import AS_ROOT, ROOT, limited, run

# The program that testing/scenarios.py runs. The forwarder's program of that name runs with the unit tests.
SCENARIOS = "tests/scenarios"
# Programs with tests in network namespaces or on raw sockets.
NEED_ROOT = {"ports/linux", "ports/conformance", "ports/testpmd", "controller/bgp_route_source"}
# The slowest programs start first, so that none runs alone at the end.
LONGEST = ["stoa/restconf", "forwarder/scenarios", "northbound", "ports/linux", "tables/lpm_model",
           "controller/bgp_route_source", "ports/testpmd", "traffic"]
# Programs at a time. Each runs two threads, and many tests wait for sockets and timers.
BESIDE = 2
DEADLINE = 900


def build(cargo, arguments, env=None):
    """Builds test programs. Returns (package folder, target name, program) of each, or None when the build fails."""
    words = [*cargo.split(), "test", "--no-run", "--locked", "--message-format=json-render-diagnostics", *arguments]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        check=False)
    if done.returncode != 0:
        return None
    found = []
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["profile"]["test"]:
            folder = os.path.dirname(message["manifest_path"])
            found.append((folder, message["target"]["name"], message["executable"]))
    return found


def is_scenarios(program):
    """Whether a program's tests run in network namespaces, by testing/scenarios.py."""
    return label_of(program) == SCENARIOS


def label_of(program):
    """Returns the crate's folder, and the program where it is not the crate's unit tests."""
    folder, name, _ = program
    return os.path.basename(folder) if name.startswith("stoa") else f"{os.path.basename(folder)}/{name}"


def libtest(report, program, deadline, words=()):
    """Runs the tests of one program whose names contain a word, or all. Returns the output of those that failed."""
    folder, _, path = program
    label = label_of(program)
    # The test library reports times as JSON only where unstable options are allowed.
    env = {**os.environ, "RUSTC_BOOTSTRAP": "1", "CARGO_MANIFEST_DIR": folder}
    command = [path, "-Z", "unstable-options", "--format", "json", "--report-time", "--show-output", *words]
    begun = time.time()
    code, output = limited([*(AS_ROOT if label in NEED_ROOT else []), *command], deadline, cwd=folder, env=env)
    passed, failed, other = 0, [], []
    for line in output.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            other.append(line)
            continue
        # `timeout` only notes that a test runs for a minute.
        if not isinstance(event, dict) or event.get("type") != "test" or event["event"] in ("started", "timeout"):
            continue
        test = f"{label}::{event['name']}"
        report.test(test, event.get("exec_time", 0))
        skipped = [one for one in event.get("stdout", "").splitlines() if one.startswith(("SKIPPED", "NOT RUN"))]
        for one in skipped:
            report.note(f"{test}: {one}")
        if event["event"] == "ok":
            passed += 1
        elif event["event"] == "ignored":
            report.note(f"{test} is ignored")
        else:
            failed.append(f"---- {test}\n{event.get('stdout', '')}")
            report.failure(test, event.get("stdout", ""))
    if passed == 0 and words:
        failed.append(f"---- {label} has no test with {words} in its name\n")
    if code != 0 and not failed:
        failed.append(f"---- {label}: {code}\n" + "\n".join(other[-40:]))
        report.failure(f"{label}: {code}", "\n".join(other[-3:]))
    print(f"  {label:<28} {passed:4} passed, {len(failed)} failed, {time.time() - begun:6.1f} s", flush=True)
    return failed


def run_units(report, programs, deadline=DEADLINE):
    """Runs the unit tests of the workspace and returns whether all passed."""
    missing = NEED_ROOT - {label_of(one) for one in programs}
    if missing:
        print(f"scripts/testing/programs.py names programs that do not exist: {', '.join(sorted(missing))}")
        return False
    if AS_ROOT:
        # The programs run in the background, where sudo cannot ask for a password.
        run(["sudo", "-v"])
    return run_all(report, programs, deadline=deadline)


def run_all(report, programs, *words, deadline=DEADLINE):
    """Runs programs, some in parallel, and returns whether all tests passed."""
    def slowest_first(program):
        label = label_of(program)
        return LONGEST.index(label) if label in LONGEST else len(LONGEST)

    with ThreadPoolExecutor(BESIDE) as pool:
        runs = pool.map(lambda one: libtest(report, one, deadline, words), sorted(programs, key=slowest_first))
        failed = sum(runs, [])
    for text in failed:
        print(text)
    return not failed
