# Two commands are all a new machine needs:  make demo  and  make test.

.PHONY: demo demo-numa test test-vm check build bench setup clean

CARGO := scripts/cargo

demo: build
	scripts/demo

demo-numa: build
	scripts/demo-numa

test:
	scripts/setup build test
	$(CARGO) build --workspace
	$(CARGO) test --workspace --no-fail-fast

# The tests that need several NUMA nodes, on a real kernel in a guest.
test-vm:
	scripts/setup build test
	scripts/test-vm

# What CI asks beyond the tests.
check:
	scripts/setup build lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) xtask tidy
	shellcheck scripts/setup scripts/cargo scripts/demo scripts/demo-numa scripts/numa-vm scripts/test-vm workloads/prepare .ci/run

build:
	scripts/setup build demo
	$(CARGO) build --release

bench:
	scripts/setup build test
	$(CARGO) run --release --quiet --package xtask -- bench

setup:
	scripts/setup build demo test lint

clean:
	$(CARGO) clean
