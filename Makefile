# Start with  make demo  or  make test;  both install missing dependencies.

.PHONY: demo demo-numa test test-vm build-tests check build bench book setup clean

CARGO := scripts/cargo

demo: build
	scripts/demo

demo-numa: build
	scripts/demo-numa

test: build-tests
	$(CARGO) test --workspace --no-fail-fast

# One command builds binaries and tests, so that both use the same builds of their dependencies.
build-tests:
	scripts/setup build test
	$(CARGO) build --workspace --bins --tests

# Tests that need several NUMA nodes, in a guest.
test-vm:
	scripts/setup build test
	scripts/test-vm

# CI checks that are not tests.
check:
	scripts/setup build lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) xtask tidy
	shellcheck scripts/setup scripts/book scripts/cargo scripts/demo scripts/demo-numa scripts/numa-vm scripts/test-vm workloads/prepare .ci/run

build:
	scripts/setup build demo
	$(CARGO) build --release

bench:
	scripts/setup build test
	$(CARGO) run --release --quiet --package bench

# The book, in target/book.
book:
	scripts/book

setup:
	scripts/setup build demo test lint

clean:
	$(CARGO) clean
