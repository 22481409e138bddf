"""Checks licences, bans and sources of all dependencies against deny.toml.

cargo-deny checks the same rules and more, but takes minutes to build, and Debian has no package of it. An unknown rule
in deny.toml is an error, so that no rule is ignored.
"""

import json
import os
import re
import subprocess
import tomllib

from testing.stages import ROOT

KNOWN = {
    "graph": {"targets", "all-features"},
    "licenses": {"allow"},
    "bans": {"multiple-versions", "wildcards", "allow-wildcard-paths", "deny"},
    "sources": {"unknown-registry", "unknown-git", "allow-registry"},
}


def is_allowed(expression, allowed):
    """Returns whether allowed licences satisfy an SPDX expression. `/` is an old form of OR."""
    words = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def either(at):
        value, at = both(at)
        while at < len(words) and words[at] == "OR":
            right, at = both(at + 1)
            value = value or right
        return value, at

    def both(at):
        value, at = one(at)
        while at < len(words) and words[at] == "AND":
            right, at = one(at + 1)
            value = value and right
        return value, at

    def one(at):
        if words[at] == "(":
            value, at = either(at + 1)
            return value, at + 1
        name, at = words[at], at + 1
        if at + 1 < len(words) and words[at] == "WITH":
            name, at = f"{name} WITH {words[at + 1]}", at + 2
        return name in allowed, at

    return either(0)[0]


def call(cargo, *words):
    """Returns the output of cargo, or None when it fails."""
    done = subprocess.run(
        [*cargo.split(), *words], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def used(cargo, targets):
    """Returns the packages that a build for these targets, or its tests, uses. `cargo metadata` also lists packages
    behind optional features that no crate enables."""
    metadata = call(cargo, "metadata", "--locked", "--format-version", "1", "--all-features")
    chosen = [word for target in targets for word in ("--target", target)]
    tree = call(
        cargo, "tree", "--locked", "--workspace", "--all-features", *chosen, "--prefix", "none", "--format", "{p}")
    if metadata is None or tree is None:
        return None
    taken = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    packages = json.loads(metadata)["packages"]
    return [one for one in packages if (one["name"], "v" + one["version"]) in taken]


def faults(rules, packages):
    """Yields one sentence for each violation."""
    for section, keys in rules.items():
        for key in keys.keys() - KNOWN.get(section, set()):
            yield f"deny.toml: [{section}] {key} is a rule that scripts/testing/dependencies.py does not know"
    allowed, banned = set(rules["licenses"]["allow"]), {one["crate"] for one in rules["bans"]["deny"]}
    registries = {f"registry+{one}" for one in rules["sources"]["allow-registry"]}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if not package["license"] or not is_allowed(package["license"], allowed):
            yield f"{name}: the licence {package['license']} is not allowed by deny.toml"
        if package["name"] in banned:
            yield f"{name} is banned by deny.toml"
        if package["source"] is not None and package["source"] not in registries:
            yield f"{name} comes from {package['source']}, which deny.toml does not allow"
        if package["source"] is None:
            for one in package["dependencies"]:
                if one["req"] == "*" and not one.get("path"):
                    yield f"{name} takes any version of {one['name']}"


def check(cargo):
    """Returns whether all dependencies satisfy the rules."""
    with open(os.path.join(ROOT, "deny.toml"), "rb") as file:
        rules = tomllib.load(file)
    packages = used(cargo, rules["graph"]["targets"])
    if packages is None:
        return False
    found = list(faults(rules, packages))
    versions = {}
    for package in packages:
        versions.setdefault(package["name"], []).append(package["version"])
    twice = sum(len(one) > 1 for one in versions.values())
    print(f"{len(packages)} packages, {twice} of them in more than one version")
    for fault in found:
        print(fault)
    return not found
