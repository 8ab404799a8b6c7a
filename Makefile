# The recipes of this repository; CONTRIBUTING.md says when to use which.
# Everything that is missing is installed by the recipes themselves, from Debian, crates.io and PyPI only.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
export CARGO_TERM_COLOR ?= auto

DEMO := demo-data

.PHONY: help setup build demo test test-long fuzz test-rocksdb lint fmt bench docs clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

setup: ## install what the other recipes need and the machine lacks
	@scripts/setup.sh

build: ## the release binary, target/release/esker (no RocksDB)
	@scripts/setup.sh build
	cargo build --release --locked --bin esker

.PHONY: release
release: ## the command as it is installed, target/dist/esker: optimised across crates, its symbols beside it
	@scripts/setup.sh build
	scripts/release.sh

.PHONY: install-fs
install-fs: setup ## libesker_fs, its header and pkg-config file, below PREFIX (/usr/local)
	scripts/install-fs.sh "$(or $(PREFIX),/usr/local)"

demo: ## import real Darshan logs and show where a result came from
	@scripts/setup.sh build
	@crates/import/tests/fetch-darshan.sh --logs-only
	# Not optimised, and without the workers of SPARQL: an eighth of the processor time of `make build`.
	cargo build --profile demo --locked --bin esker --no-default-features
	@scripts/demo.sh $(DEMO)

.PHONY: darshan-logs
darshan-logs: setup
	@crates/import/tests/fetch-darshan.sh

.PHONY: origin-servers
origin-servers: setup
	@crates/origin/tests/fetch-servers.sh
	@crates/origin/tests/fetch-ftp-servers.sh

.PHONY: slurm
slurm: setup
	@crates/cli/tests/fetch-slurm.sh

test: setup darshan-logs origin-servers slurm ## every test that fits into minutes; TEST=--changed leaves out what passed before with the same inputs
	scripts/test.py $(TEST)

test-long: setup darshan-logs origin-servers ## many more random histories and crashes, for an hour or so
	cargo build --locked --release --bin esker
	ESKER_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/esker ESKER_SEEDS=$${ESKER_SEEDS:-2000} ESKER_FJALL_SEEDS=$${ESKER_FJALL_SEEDS:-100} ESKER_KILLS=$${ESKER_KILLS:-50} PROPTEST_CASES=4000 cargo test --locked --release
	cargo test --locked --release -p esker-testkit --test sim -- --ignored very_many_runs
	ESKER_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/esker scripts/check-sparql-clients-long.sh
	ESKER_ETCD=$${ESKER_ETCD:-$${ESKER_FTP_SERVERS_DIR:-target/ftp-servers}/etcd-server/usr/bin/etcd} $(abspath $(or $(CARGO_TARGET_DIR),target))/release/esker bench cluster soak --minutes $${ESKER_SOAK_MINUTES:-30} $(abspath $(or $(CARGO_TARGET_DIR),target))

.PHONY: test-spark
test-spark: setup darshan-logs ## Apache Spark reads an exported graph, and sends OpenLineage: installs some 400 MB from PyPI, needs Java
	cargo build --locked --bin esker
	ESKER_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/debug/esker scripts/check-spark.sh
	ESKER_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/debug/esker scripts/check-openlineage.sh spark

fuzz: ## every fuzz target for ten minutes, with its corpus kept: fuzz/README.md
	scripts/setup.sh fuzz
	scripts/fuzz.sh

test-rocksdb: setup ## the RocksDB back end: compiles some 350 C++ files first
	scripts/setup.sh rocksdb
	# In one call: two would compile the C++ twice, for each has features of its own.
	cargo test --locked -p esker-store-rocksdb -p esker-database --features esker-database/rocksdb

lint: setup ## formatting, clippy, spelling, licences
	cargo fmt --all --check
	cargo clippy --locked --all-targets -- -D warnings
	scripts/lint.sh

fmt: ## format everything
	cargo fmt --all

bench: build ## the figures of docs/book/bench.md
	scripts/bench.sh

.PHONY: bench-boss
bench-boss: build ## objects beside SQLite, DuckDB and PostgreSQL: the table in docs/objects.md
	scripts/bench-boss.sh

.PHONY: dist
dist: ## the source archive with all crates in it, target/dist/esker-VERSION.tar.gz (builds without a network), its SBOM and SHA256SUMS
	scripts/dist.sh

docs: setup ## the documentation site, target/docs, and the API documentation
	cargo build --locked --bin esker
	scripts/check-docs.sh build
	cargo doc --locked --no-deps

clean: ## remove what was built
	cargo clean
	rm -rf $(DEMO)
