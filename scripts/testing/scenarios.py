"""Scenarios, each in a process and a network namespace of its own: several at a time, or alone."""

import os
import subprocess
import threading
import time

from testing.stages import ROOT, limited

LIST = os.path.join(ROOT, "tests/scenarios/schedule.txt")
DEADLINE = 400


def schedule():
    """Returns the beginnings of names by their group in the schedule."""
    groups, group = {}, None
    with open(LIST, encoding="utf-8") as file:
        for line in file:
            line = line.split("#")[0].strip()
            if line.startswith("["):
                group = groups.setdefault(line.strip("[]"), [])
            elif line:
                group.append(line)
    return groups


def tests_of(program, words):
    """Returns the tests of a program whose names contain one of these words, or all."""
    done = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    names = [line[:-len(": test")] for line in done.stdout.splitlines() if line.endswith(": test")]
    return [name for name in names if not words or any(word in name for word in words)]


class Runner:
    """Runs tests of the scenarios' program and keeps the output of those that failed."""

    def __init__(self, report, program, env, deadline):
        self.report = report
        self.program = program
        self.env = {**os.environ, **env}
        self.deadline = deadline
        self.failed = []
        self.lock = threading.Lock()

    def one(self, name):
        """Runs one test. The namespace keeps ports of the machine's own addresses apart from other tests'."""
        words = ["unshare", "--net", "--", "/bin/sh", "-c", 'ip link set lo up && exec "$@"', "sh",
                 self.program, "--exact", name, "--nocapture"]
        begun = time.time()
        # The next scenario removes what this one leaves.
        code, text = limited(words, self.deadline, cwd=os.path.join(ROOT, "tests"), env=self.env)
        seconds = time.time() - begun
        passed = code == 0 and "test result: ok. 1 passed" in text
        self.report.test(name, seconds)
        for line in text.splitlines():
            if line.startswith(("SKIPPED", "NOT RUN")):
                self.report.note(f"{name}: {line}")
        print(f"  {'ok    ' if passed else 'FAILED'} {seconds:6.1f} s  {name}", flush=True)
        if not passed:
            with self.lock:
                self.failed.append((name, f"---- {name}: {code}\n{text}"))
            self.report.failure(f"{name}: {code}", text)

    def beside(self, names, threads, busy):
        """Runs tests in this order, `threads` at a time, and at most one that keeps a processor busy."""
        waiting, running, turn = list(names), [], threading.Condition()

        def take():
            with turn:
                while waiting:
                    name = next((one for one in waiting if not (busy(one) and running)), None)
                    if name is not None:
                        waiting.remove(name)
                        running.extend([name] if busy(name) else [])
                        return name
                    turn.wait()
                return None

        def work():
            while (name := take()) is not None:
                try:
                    self.one(name)
                except Exception as error:  # A test that did not run has failed, and the others wait for its turn.
                    with self.lock:
                        self.failed.append((name, f"---- {name}: {error!r}\n"))
                    self.report.failure(name, repr(error))
                finally:
                    with turn:
                        if name in running:
                            running.remove(name)
                        turn.notify_all()

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def run(report, program, env, words=(), threads=6, deadline=DEADLINE):
    """Runs the scenarios whose names contain one of these words, or all, and returns whether they passed."""
    if os.geteuid() != 0:
        print("The scenarios need root: run them by `make test`, which asks for it, or by sudo.")
        return False
    groups = schedule()
    names = tests_of(program, [])
    for pattern in sum(groups.values(), []):
        if not any(name.startswith(pattern) for name in names):
            print(f"{LIST}: no scenario is called {pattern}")
            return False
    names = tests_of(program, words)
    if not names:
        print(f"No scenario has {' or '.join(words) or 'a name'} in its name.")
        return False
    alone = [name for name in names if name.startswith(tuple(groups["alone"]))]
    rest = [name for name in names if name not in alone]
    first = [name for pattern in groups["first"] for name in rest if name.startswith(pattern)]
    rest = first + [name for name in rest if name not in first]
    runner = Runner(report, program, env, deadline)
    print(f"  {len(rest)} scenarios, {threads} at a time; then {len(alone)} alone", flush=True)
    runner.beside(rest, threads, lambda name: name.startswith(tuple(groups["busy"])))
    runner.beside(alone, 1, lambda name: False)
    for _, text in runner.failed:
        print(text)
    return not runner.failed
