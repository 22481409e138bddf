# Stoa: every target installs what it needs (Debian 12, Ubuntu 24.04) and builds what it calls.
# Needs Rust (https://rustup.rs) and root or sudo.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help build run test check soak bench bench-compare fuzz deb container book clean

# Arguments of `make run` and `make bench`, e.g. `make run ARGS="--once --json"`.
ARGS ?=
# Under sudo the PATH is the system's: look where rustup puts cargo, too.
CARGO ?= $(shell scripts/find-cargo)
SUDO := $(shell test "$$(id -u)" = 0 || echo sudo)
STOA := target/release/stoa

help: ## What there is to do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

build: ## The router, as target/release/stoa; with what `scripts/setup dpdk ipsec-mb` installs
	@scripts/setup build >&2
	@scripts/fetch-yang >&2
	@scripts/build-dashboard >&2
	@features="$$(scripts/features)" && \
		echo "build: $${features:-without DPDK ports and ipsec-mb: scripts/setup dpdk ipsec-mb, then make build, adds them}" >&2 && \
		$(CARGO) build --release --locked --package stoa $$features >&2

run: build ## Two hosts joined by Stoa: real ping, traceroute and iperf3, then live counters until Ctrl-C
	@scripts/setup run >&2
	@$(SUDO) $(STOA) demo $(ARGS)

test: ## Everything that decides right or wrong, in at most 20 minutes on two processors
	@scripts/setup build test >&2
	@CARGO="$(CARGO)" scripts/test all

check: ## The quick part of test, without scenarios
	@scripts/setup build >&2
	@CARGO="$(CARGO)" scripts/test quick

soak: ## What takes hours: release build, long chaos, kill loops, rounds of scenarios, fuzzing; SOAK_... make it shorter
	@scripts/setup build test deb >&2
	@CARGO="$(CARGO)" scripts/soak

bench: build ## The catalogue of speed figures on this machine, beside their bars
	@scripts/bench $(STOA) $(ARGS)

bench-compare: build ## Side by side with DPDK and Linux, one processor each; needs two processors and root
	@scripts/setup compare >&2
	@scripts/build-l3fwd
	@$(CARGO) build --release --locked --package stoa-memif --example load >&2
	@$(SUDO) scripts/bench-compare $(STOA) $(ARGS)

fuzz: ## Every fuzz target for FUZZ_SECONDS (60) each; needs the nightly toolchain
	@scripts/setup build >&2
	@scripts/fetch-yang >&2
	@scripts/build-dashboard >&2
	@CARGO="$(CARGO)" scripts/fuzz

deb: build ## A Debian package with units for systemd, in target/deb
	@scripts/setup deb >&2
	@packaging/build-deb

container: build ## A container image of the package and nothing else, in target/container
	@scripts/setup deb >&2
	@docker info >/dev/null 2>&1 || scripts/setup container >&2
	@package="$$(packaging/build-deb)" && root="$$(packaging/build-rootfs "$$package")" && \
		packaging/build-container "$$root"

book: ## The operator's guide as a book, in target/book
	@CARGO="$(CARGO)" scripts/book

clean: ## Remove what was built
	@$(CARGO) clean
