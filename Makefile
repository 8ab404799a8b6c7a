# Recipes of this repository; CONTRIBUTING.md says when to use them.
# The recipes install missing programs and libraries, from Debian, crates.io, PyPI and the proxy of Go modules only.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
export CARGO_TERM_COLOR ?= auto

DEMO := demo-data
# The command, its benchmarks, and SPARQL over several processes.
PROGRAMS := --bin esker --bin esker-bench --bin esker-workers

.PHONY: help setup build demo test test-long fuzz test-rocksdb lint fmt bench docs clean

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

setup: ## install programs and libraries that the other recipes need
	@scripts/setup.sh

build: ## build the release programs, target/release/esker and beside it (without RocksDB)
	@scripts/setup.sh build
	cargo build --release --locked $(PROGRAMS)

.PHONY: release
release: ## build the programs for installation, in target/dist: optimised across crates, with separate symbols
	@scripts/setup.sh build
	scripts/release.sh

.PHONY: install-fs
install-fs: setup ## install libesker_fs, its header and pkg-config file below PREFIX (/usr/local)
	scripts/install-fs.sh "$(or $(PREFIX),/usr/local)"

demo: ## import real Darshan logs and show the lineage of a result
	@scripts/setup.sh build
	@crates/import/tests/fetch-darshan.sh --logs-only
	# Without optimisation and the other programs, the build takes an eighth of the processor time of `make build`.
	cargo build --profile demo --locked --bin esker
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

test: setup darshan-logs origin-servers slurm ## run all tests except the long ones; TEST=--changed skips tests that passed before with the same inputs
	scripts/test.py $(TEST)

test-long: setup darshan-logs origin-servers ## test many more random histories, crashes and SPARQL requests, and the packages, for two hours
	scripts/features.sh --all
	scripts/setup.sh check-packages
	scripts/check-packages.sh
	# With the command of an earlier release, clients and servers of both are tried against each other.
	[ -z "$${ESKER_OLD:-}" ] || scripts/check-releases.sh
	cargo build --locked --release $(PROGRAMS)
	ESKER_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/esker ESKER_SEEDS=$${ESKER_SEEDS:-2000} ESKER_FJALL_SEEDS=$${ESKER_FJALL_SEEDS:-100} ESKER_KILLS=$${ESKER_KILLS:-50} ESKER_MOUNT_KILLS=$${ESKER_MOUNT_KILLS:-200} PROPTEST_CASES=4000 cargo test --locked --release
	cargo test --locked --release -p esker-testkit --test sim -- --ignored very_many_runs
	ESKER_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/esker scripts/check-sparql-clients-long.sh
	ESKER_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/esker scripts/check-workflows.sh comparison
	ESKER_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/esker scripts/check-sparql.sh --cases $${ESKER_SPARQL_CASES:-100000} --seed $${ESKER_SPARQL_SEED:-1} --jena $${ESKER_SPARQL_CLIENTS_DIR:-target/sparql-clients}-long/jars
	# With one clock, reads through any server are checked against all acknowledged writes; with clock jumps, against those of their session.
	for faults in kill,pause,cut,etcd kill,pause,cut,etcd,clock; do
	    ESKER_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/esker scripts/cluster-check.py --seconds $${ESKER_CLUSTER_SECONDS:-600} --seed $${ESKER_CLUSTER_SEED:-$$RANDOM} --faults $$faults
	done
	ESKER_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/esker scripts/visibility-check.py --seed $${ESKER_VISIBILITY_SEED:-$$RANDOM} --seeds $${ESKER_VISIBILITY_TREES:-1000} --entries 400 --share 0.5
	ESKER_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/esker scripts/visibility-check.py --seed $${ESKER_VISIBILITY_SEED:-$$RANDOM} --entries 100000 --users 50 --groups 30
	ESKER_ETCD=$${ESKER_ETCD:-$${ESKER_FTP_SERVERS_DIR:-target/ftp-servers}/etcd-server/usr/bin/etcd} $(abspath $(or $(CARGO_TARGET_DIR),target))/release/esker bench cluster soak --minutes $${ESKER_SOAK_MINUTES:-30} $(abspath $(or $(CARGO_TARGET_DIR),target))

.PHONY: test-spark
test-spark: setup darshan-logs ## test an export and OpenLineage with Apache Spark: installs some 400 MB from PyPI, needs Java
	cargo build --locked --bin esker
	ESKER_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/debug/esker scripts/check-spark.sh
	ESKER_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/debug/esker scripts/check-openlineage.sh spark

fuzz: ## run each fuzz target for ten minutes and keep its corpus: fuzz/README.md
	scripts/setup.sh fuzz
	scripts/fuzz.sh

test-rocksdb: setup ## test the RocksDB back end: compiles some 350 C++ files first
	scripts/setup.sh rocksdb
	# Two calls would compile the C++ code twice, because their features differ.
	cargo test --locked -p esker-store-rocksdb -p esker-database --features esker-database/rocksdb

lint: setup ## check formatting, clippy, features of the library, words, spelling and licences
	cargo fmt --all --check
	cargo clippy --locked --all-targets -- -D warnings
	scripts/features.sh
	scripts/lint.sh

fmt: ## format everything
	cargo fmt --all

bench: build ## print the figures of docs/book/bench.md
	$${CARGO_TARGET_DIR:-target}/release/esker-bench all --quick

.PHONY: bench-boss
bench-boss: build ## compare objects with SQLite, DuckDB and PostgreSQL: the table in docs/papers/someta.md
	scripts/bench-boss.sh

.PHONY: packages
packages: ## build the packages for installation, in target/packages: archive, .deb, .rpm, container image, Python wheel
	@scripts/setup.sh packages
	scripts/packages.sh

.PHONY: test-packages
test-packages: ## build the packages with a fast profile, install each on a bare system, and run the first commands there
	@scripts/setup.sh check-packages
	scripts/check-packages.sh

.PHONY: dist
dist: ## write the source archive with all crates, target/dist/esker-VERSION.tar.gz (builds without a network), its SBOM and SHA256SUMS
	scripts/dist.sh

docs: setup ## build the documentation site, target/docs, and the API documentation
	cargo build --locked --bin esker
	scripts/check-docs.sh build
	cargo doc --locked --no-deps

clean: ## remove all build results
	cargo clean
	rm -rf $(DEMO)
