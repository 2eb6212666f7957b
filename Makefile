# Start with  make,  make demo  or  make test;  all install missing dependencies.

.DEFAULT_GOAL := build

.PHONY: demo demo-numa test test-vm build-tests check build install uninstall deb test-deb bench book screenshots setup clean

CARGO := scripts/cargo

# make install reads PREFIX, SYSCONFDIR, BINDIR, MANDIR, UNITDIR and DESTDIR; scripts/install has their defaults.

# The executable that make install copies. make build writes it.
EVENKEEL ?= target/release/evenkeel
export EVENKEEL

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
	shellcheck $$(git ls-files .ci debian scripts workloads | xargs -d '\n' grep -lE '^#!.*sh$$')

build:
	scripts/setup build demo
	$(CARGO) build --release

# With sudo: the executable that make build wrote is installed, because root may have no Rust.
install:
	@if [ -z "$$SUDO_USER" ] || [ ! -x "$(EVENKEEL)" ]; then $(MAKE) --no-print-directory build; fi
	scripts/install

# Keeps the configuration.
uninstall:
	scripts/install --remove

# A Debian package in target/debian.
deb: build
	scripts/setup deb
	scripts/deb

# Installs, upgrades and purges the package in a copy of this system (root).
test-deb: build-tests
	scripts/setup deb
	EVENKEEL=target/debug/evenkeel scripts/test-deb

bench:
	scripts/setup build test
	$(CARGO) run --release --quiet --package bench

# The book, in target/book.
book:
	scripts/book

# Pictures of every kind of HTML page, in target/screenshots.
screenshots:
	scripts/setup build test screenshots
	$(CARGO) build --package app
	EVENKEEL=target/debug/evenkeel scripts/screenshots

setup:
	scripts/setup build demo test lint

clean:
	$(CARGO) clean
