"""Stages of a test run: each is timed, held to its budget, and told of in a summary that is kept."""

import json
import os
import subprocess
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What is run with root's rights; the build stays the user's.
AS_ROOT = [] if os.geteuid() == 0 else ["sudo", "-E"]


def run(command, env=None, output=None):
    """Runs a command in the workspace and says whether it succeeded."""
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
        stdout=output, stderr=subprocess.STDOUT if output else None, check=False)
    return done.returncode == 0


class Report:
    """Stages in their order, and the tests that took longest. Without budgets a stage may take what it takes."""

    def __init__(self, kind, budgets):
        self.kind = kind
        self.budgets = budgets
        # A slow or busy machine gets more time for all.
        self.factor = float(os.environ.get("STOA_BUDGET_FACTOR", "1"))
        self.began = time.time()
        self.stages = []
        self.tests = []
        self.notes = []
        self.lock = threading.Lock()

    def stage(self, name, work):
        """Runs `work`, which says whether all is well, and holds it to the budget of its name."""
        print(f"\n==> {name}", flush=True)
        begun = time.time()
        try:
            is_well = work()
        except (OSError, ValueError) as error:
            print(f"{name}: {error}", flush=True)
            is_well = False
        self.add(name, is_well, time.time() - begun)

    def background(self, name, command):
        """Starts a command beside the stages; the function returned waits for it and shows what it said."""
        output = tempfile.TemporaryFile("w+")
        state = {}

        def work():
            begun = time.time()
            state["well"] = run(command, output=output)
            state["seconds"] = time.time() - begun

        thread = threading.Thread(target=work)
        thread.start()

        def join():
            thread.join()
            output.seek(0)
            print(f"\n==> {name} (ran beside the stages above)\n{output.read()}", end="", flush=True)
            self.add(name, state["well"], state["seconds"], "background")

        return join

    def add(self, name, is_well, seconds, kind="stage"):
        """Writes one stage down."""
        budget = None if self.budgets is None else self.budgets.get(name)
        state = "ok" if is_well else "FAILED"
        if self.budgets is None:
            pass
        elif budget is None:
            print(f"{name}: has no budget in scripts/testing/budgets.json")
            state = "FAILED"
        elif is_well and seconds > budget * self.factor:
            print(f"{name}: took {seconds:.0f} s, its budget is {budget * self.factor:.0f} s")
            state = "SLOW"
        self.stages.append(
            {"name": name, "state": state, "seconds": round(seconds, 1), "budget": budget, "kind": kind})

    def test(self, name, seconds):
        """Writes down how long one test took."""
        with self.lock:
            self.tests.append((round(seconds, 2), name))

    def note(self, text):
        """Something that a reader of the summary has to know."""
        with self.lock:
            self.notes.append(text)

    def finish(self, path, tests=True):
        """Prints the summary, keeps it as JSON, and gives the exit code."""
        total = time.time() - self.began
        allowed = (self.budgets or {}).get(f"total of {self.kind}")
        slowest = sorted(self.tests, reverse=True)[:10]
        print("\nStages")
        for one in self.stages:
            beside = " (beside others)" if one["kind"] == "background" else ""
            budget = "" if one["budget"] is None else f" of {one['budget']} s"
            print(f"  {one['name']:<36} {one['state']:<7} {one['seconds']:5.0f} s{budget}{beside}")
        print("Slowest tests")
        for seconds, name in slowest:
            print(f"  {seconds:6.1f} s  {name}")
        for note in self.notes:
            print(f"  {note}")
        bad = [one["name"] for one in self.stages if one["state"] != "ok"]
        if allowed is not None and total > allowed * self.factor:
            bad.append(f"the whole took longer than {allowed * self.factor:.0f} s")
        kept = {
            "kind": self.kind,
            "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "commit": self.commit(),
            "processors": len(os.sched_getaffinity(0)),
            "seconds": round(total, 1),
            "failed": bad,
            "stages": self.stages,
            "slowest": [{"name": name, "seconds": seconds} for seconds, name in slowest],
            "notes": self.notes,
        }
        if tests:
            kept["tests"] = {name: seconds for seconds, name in sorted(self.tests, reverse=True)}
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(kept, file, indent=1)
            file.write("\n")
        minutes, seconds = divmod(round(total), 60)
        print(f"\n{minutes} min {seconds:02} s in all; {os.path.relpath(path, ROOT)} keeps the times.")
        print("Everything passed." if not bad else f"Failed: {', '.join(bad)}. See above.")
        return 1 if bad else 0

    @staticmethod
    def commit():
        """The commit that was tested, with a mark when files differ from it."""
        words = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
        said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        return said.stdout.strip() or "unknown"
