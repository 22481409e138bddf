"""Builds and tests examples/plugin, a crate outside of the workspace, as its author would.

It shares crates of other authors with the main build, which has the same profile. Stoa's own crates are built again,
since cargo tells packages apart by their workspace; without optimisation, which takes less than to optimise them.
"""

import glob
import os
import shutil
import tomllib

from testing.stages import ROOT, run

PLUGIN = os.path.join(ROOT, "examples/plugin")
MANIFEST = ["--manifest-path", os.path.join(PLUGIN, "Cargo.toml")]
PROFILES = ["ci", "release"]


def profiles():
    """Returns the profiles of the workspace as options of cargo: each workspace has its own."""
    with open(os.path.join(ROOT, "Cargo.toml"), "rb") as file:
        workspace = tomllib.load(file)["profile"]
    settings = {f"profile.{name}": workspace[name] for name in PROFILES}
    packages = workspace["ci"]["package"]
    for folder in glob.glob(os.path.join(ROOT, "crates/*")):
        name = os.path.basename(folder)
        packages["stoa" if name == "stoa" else f"stoa-{name}"] = {"opt-level": 0}
    return [word for key, value in flat(settings) for word in ("--config", f"{key}={value}")]


def flat(settings, above=""):
    """Returns dotted keys with their values in TOML."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{key}.")
        else:
            text = str(value).lower() if isinstance(value, (bool, int)) else f'"{value}"'
            yield f"{above}{key}", text


def is_formatted(cargo):
    """Returns whether rustfmt finds nothing to change."""
    return run([*cargo.split(), "fmt", *MANIFEST, "--check"])


def test(cargo, has_dpdk):
    """Runs the tests of the plugin, among them one with its own router."""
    # The versions that the workspace has; cargo leaves out what the plugin does not use.
    shutil.copy(os.path.join(ROOT, "Cargo.lock"), PLUGIN)
    features = ["--features", "dpdk"] if has_dpdk else []
    words = ["test", "--offline", "--profile", "ci", *features, *profiles(), *MANIFEST]
    return run([*cargo.split(), *words], {"CARGO_TARGET_DIR": os.path.join(ROOT, "target")})
