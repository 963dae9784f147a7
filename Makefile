# Two commands are all a newcomer needs: `make run` and `make test`.
# What `busyhour --version` tells.
COMMIT = BUSYHOUR_COMMIT=$$(git rev-parse --short=10 HEAD 2>/dev/null)
.DEFAULT_GOAL := help
.PHONY: help run test lib install dist book peers bench storm web-dev doc tidy clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build the server and start it with its embedded defaults
	@scripts/install-deps.sh build
	@echo "building the server: this takes some minutes in a fresh clone"
	@$(COMMIT) scripts/goes-on.sh "building the server" cargo build --profile quick --package busyhour-server
	@"$${CARGO_TARGET_DIR:-target}/quick/busyhour" serve

test: ## Everything: format, lints, tests, docs, models, real peers
	@scripts/install-deps.sh build
	@scripts/test.sh

lib: ## Build the library for C and C++
	@scripts/install-deps.sh build
	@scripts/build-capi.sh

install: ## Install what make lib has built, for C and C++: PREFIX=/usr/local DESTDIR=
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install-capi.sh

dist: ## Packages, image, static program and checksums of a release, in target/dist
	@scripts/install-deps.sh build dist
	@scripts/dist.sh

book: ## The book, in target/book/html; builds mdBook the first time
	@scripts/install-deps.sh build
	@scripts/book.sh

storm: ## The seed's load against a server that runs: 12,000 registrations in 60 s
	@$(COMMIT) cargo run --profile quick --package busyhour-server -- storm

peers: ## Install the peers that Debian has, and build every engine of the benchmarks
	@scripts/install-deps.sh build peers
	@cd bench && cargo run --package versus -- build && cargo run --package versus -- check

web-dev: ## Start the server with the dashboard's files read from the sources each time
	@DASHBOARD_ASSETS=$(CURDIR)/crates/busyhour-server/src/web/page/assets cargo run --package busyhour-server -- serve

# Minutes: 18 are enough for about one round, 60 for up to three.
BUDGET ?= 18
bench: ## Every scenario at every size against every peer, within BUDGET=18 minutes, and the page of it
	@cd bench && { cargo run --package versus -- run all --rounds 3 --budget $(BUDGET) --json target/record.json; \
		status=$$?; cargo run --package versus -- report target/record.json; exit $$status; }

doc: ## Build the library's documentation
	@cargo doc --workspace --no-deps

tidy: ## Check what the compiler does not
	@cargo xtask tidy

clean: ## Remove what builds left behind
	@cargo clean && rm -rf bench/target bench/engines/*/target fuzz/target
