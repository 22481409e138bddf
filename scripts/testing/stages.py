"""Stages of a test run: their times, their budgets, and the summary."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Runs a command as root; the build stays the user's.
AS_ROOT = [] if os.geteuid() == 0 else ["sudo", "-E"]
# The children of `limited` that run, and whether the user has interrupted the run.
RUNNING = set()
INTERRUPTED = threading.Event()


def run(command, env=None, output=None):
    """Runs a command in the workspace and returns whether it succeeded."""
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
        stdout=output, stderr=subprocess.STDOUT if output else None, check=False)
    return done.returncode == 0


def limited(command, deadline, **options):
    """Runs a command in a process group of its own and ends the group at the deadline. Returns exit code and output."""
    if INTERRUPTED.is_set():
        return "interrupted", ""
    # sudo finds its ticket by the terminal, which a new session does not have.
    group = {"process_group": 0} if command[0] == "sudo" else {"start_new_session": True}
    # Not a pipe, which a process that outlives the command would keep open.
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, **group, **options)
        RUNNING.add(child)
        try:
            code = child.wait(deadline)
        except subprocess.TimeoutExpired:
            end_group(child)
            child.wait()
            code = "past its deadline"
        finally:
            RUNNING.discard(child)
        output.seek(0)
        return code, output.read()


def end_group(child):
    """Kills the process group of a child that runs: the child and the processes that it started."""
    if child.poll() is not None:
        return
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except PermissionError:  # It runs as root.
        run([*AS_ROOT, "kill", "-KILL", "--", f"-{child.pid}"])


def interrupt(*_):
    """Handles Ctrl-C, which does not reach other process groups: ends them and starts no more."""
    INTERRUPTED.set()
    for child in list(RUNNING):
        end_group(child)
    raise KeyboardInterrupt


class Report:
    """Stages in their order, and the tests that took longest. Without budgets a stage may take any time."""

    def __init__(self, kind, budgets):
        self.kind = kind
        self.budgets = budgets
        # A slow or busy machine gets more time for every stage.
        self.factor = float(os.environ.get("STOA_BUDGET_FACTOR", "1"))
        self.began = time.time()
        self.stages = []
        self.tests = []
        self.notes = []
        self.failures = []
        self.lock = threading.Lock()

    def stage(self, name, work):
        """Runs `work`, which returns whether it succeeded, and checks its time against the budget of this name."""
        print(f"\n==> {name}", flush=True)
        begun = time.time()
        try:
            passed = work()
        except (OSError, ValueError) as error:
            print(f"{name}: {error}", flush=True)
            passed = False
        self.add(name, passed, time.time() - begun)

    def background(self, name, command):
        """Starts a command beside the stages. The returned function waits for it and prints its output."""
        output = tempfile.TemporaryFile("w+")
        state = {}

        def work():
            begun = time.time()
            try:
                state["passed"] = run(command, output=output)
            except OSError as error:
                print(error, file=output)
                state["passed"] = False
            state["seconds"] = time.time() - begun

        thread = threading.Thread(target=work)
        thread.start()

        def join():
            thread.join()
            output.seek(0)
            print(f"\n==> {name} (ran beside the stages above)\n{output.read()}", end="", flush=True)
            self.add(name, state["passed"], state["seconds"], "background")

        return join

    def add(self, name, passed, seconds, kind="stage"):
        """Records one stage."""
        budget = None if self.budgets is None else self.budgets.get(name)
        state = "ok" if passed else "FAILED"
        if self.budgets is None:
            pass
        elif budget is None:
            print(f"{name}: has no budget in scripts/testing/budgets.json")
            state = "FAILED"
        elif passed and seconds > budget * self.factor:
            print(f"{name}: took {seconds:.0f} s, its budget is {budget * self.factor:.0f} s")
            state = "SLOW"
        self.stages.append(
            {"name": name, "state": state, "seconds": round(seconds, 1), "budget": budget, "kind": kind})

    def test(self, name, seconds):
        """Records the seconds of one test."""
        with self.lock:
            self.tests.append((round(seconds, 2), name))

    def failure(self, name, output):
        """Records a failed test with the beginning of its panic, else with the end of its output."""
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        at = next((at for at, line in enumerate(lines) if "panicked at" in line), max(len(lines) - 3, 0))
        with self.lock:
            self.failures.append((name, [line[:300] for line in lines[at:at + 3]]))

    def note(self, text):
        """Adds a line to the summary."""
        with self.lock:
            self.notes.append(text)

    def finish(self, path, tests=True):
        """Prints the summary, writes it as JSON, and returns the exit code."""
        total = time.time() - self.began
        allowed = (self.budgets or {}).get(f"total of {self.kind}")
        print("\nStages")
        for one in self.stages:
            beside = " (beside others)" if one["kind"] == "background" else ""
            budget = "" if one["budget"] is None else f" of {one['budget']} s"
            print(f"  {one['name']:<36} {one['state']:<7} {one['seconds']:5.0f} s{budget}{beside}")
        print("Slowest tests")
        for seconds, name in self.slowest():
            print(f"  {seconds:6.1f} s  {name}")
        for note in self.notes:
            print(f"  {note}")
        bad = [one["name"] for one in self.stages if one["state"] != "ok"]
        if allowed is not None and total > allowed * self.factor:
            bad.append(f"the run took longer than {allowed * self.factor:.0f} s")
        self.keep(path, bad, tests)
        minutes, seconds = divmod(round(total), 60)
        target = (self.budgets or {}).get(f"target of {self.kind}")
        of_target = "" if target is None else f" of a target of {target // 60} min"
        print(f"\n{minutes} min {seconds:02} s in all{of_target}; {os.path.relpath(path, ROOT)} keeps the times.")
        if target is not None and total > target:
            print("That is more than the target.")
        # Last: of a long log, often only the end is at hand.
        for name, lines in self.failures:
            print(f"FAILED {name}", *lines, sep="\n    ")
        print("Everything passed." if not bad else f"Failed: {', '.join(bad)}. See above.")
        return 1 if bad else 0

    def slowest(self):
        """Returns seconds and names of the ten slowest tests."""
        return sorted(self.tests, reverse=True)[:10]

    def keep(self, path, failed, tests=True):
        """Writes what has been recorded so far as JSON."""
        kept = {
            "kind": self.kind,
            "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "commit": self.commit(),
            "processors": len(os.sched_getaffinity(0)),
            "seconds": round(time.time() - self.began, 1),
            "failed": failed,
            "stages": self.stages,
            "slowest": [{"name": name, "seconds": seconds} for seconds, name in self.slowest()],
            "notes": self.notes,
        }
        if tests:
            kept["tests"] = {name: seconds for seconds, name in sorted(self.tests, reverse=True)}
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(kept, file, indent=1)
            file.write("\n")

    @staticmethod
    def commit():
        """Returns the tested commit, marked when files differ from it."""
        words = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip() or "unknown"
