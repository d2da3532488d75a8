# What people and CI run. `make demo` and `make test` do all of their own set-up.

.PHONY: help demo test lint build ci bench bench-short setup-demo setup-test setup-bench clean

help:
	@echo 'make demo    try it: a throwaway Postgres, a fleet, load, a cancel, scale, stop'
	@echo 'make test    all tests, against a real Postgres'
	@echo 'make lint    formatting and lints'
	@echo 'make bench   CPU and system calls of a transaction, beside PgBouncer'
	@echo 'make ci      what has to pass before anything lands'

build:
	cargo build --workspace

demo: setup-demo
	cargo build --release -p pgfleet -p pgfleetd
	target/release/pgfleet demo

test: setup-test build
	cargo test --workspace
	cargo test -p pgfleetd --features pam pam

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy -p pgfleetd --features pam --all-targets -- -D warnings

bench: setup-bench
	cargo build --release -p pgfleet -p pgfleetd
	python3 tests/bench/cost.py

bench-short: setup-bench
	cargo build --release -p pgfleet -p pgfleetd
	python3 tests/bench/cost.py --pairs 3 --seconds 2

ci: lint test bench-short

setup-demo:
	@sh scripts/setup.sh demo

setup-test:
	@sh scripts/setup.sh test

setup-bench:
	@sh scripts/setup.sh bench

clean:
	cargo clean
