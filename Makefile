# What can be done here. `make` alone lists it.

CARGO  ?= cargo
PREFIX ?= $(HOME)/.local
DEMO_ARGS ?=
TEST_ARGS ?=
FUZZ_SECONDS ?= 20
# Pages are for people who read the sources: links to private items hold. Help texts of the command line are no HTML.
DOC_FLAGS := -D warnings -A rustdoc::private_intra_doc_links -A rustdoc::invalid_html_tags

# A target triple must be named so that the flags reach lazy and not the build scripts, which cannot be static.
TRIPLE := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
STATIC := target/$(TRIPLE)/release/lazy
STATIC_LIMIT := 20971520

.DEFAULT_GOAL := help
.PHONY: bench-proxy help build static demo test check bench install fuzz fuzz-build

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS='	' read -r name text; do \
	  printf '  make %-12s %s\n' "$$name" "$$text"; done

# With the example, the crates get the features that the tests need as well: otherwise each of `make demo` and
# `make test` builds half of them again.
build: ## the debug build, target/debug/lazy
	$(CARGO) build --locked --bins --examples

static: ## the release build, one static executable: target/lazy
	RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --locked --release --target $(TRIPLE)
	ln -f $(STATIC) target/lazy
	@size=$$(wc -c < target/lazy); echo "target/lazy: $$size bytes (at most $(STATIC_LIMIT))"; \
	  test "$$size" -le $(STATIC_LIMIT) || { echo "target/lazy is too big" >&2; exit 1; }

demo: build ## a task from its start to the squash commit, without network: `make demo DEMO_ARGS=--keep`
	target/debug/lazy demo $(DEMO_ARGS)

test: ## every test; what needs a part this machine lacks says so by name
	$(CARGO) test --locked $(TEST_ARGS)

check: ## formatting, lints, documentation, the guards of the house
	$(CARGO) fmt --check
	$(CARGO) fmt --check --manifest-path fuzz/Cargo.toml
	$(CARGO) clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="$(DOC_FLAGS)" $(CARGO) doc --locked --no-deps --document-private-items --quiet
	$(CARGO) test --locked --test main guards::

bench: static ## start times, memory and size of target/lazy, beside their goals and `git --version`
	$(CARGO) run --locked --quiet --example bench -- target/lazy
	@echo
	$(CARGO) run --locked --quiet --example bench-containers -- target/lazy

bench-proxy: static ## what the proxy adds: first byte, events, rate, memory, beside nginx and others that are installed
	$(CARGO) run --locked --quiet --example bench-proxy -- target/lazy

install: static ## target/lazy to $(PREFIX)/bin (~/.local/bin)
	install -d "$(DESTDIR)$(PREFIX)/bin"
	install -m 755 target/lazy "$(DESTDIR)$(PREFIX)/bin/lazy"

fuzz-build: ## the fuzz targets, without running them
	RUSTC_BOOTSTRAP=1 $(CARGO) check --manifest-path fuzz/Cargo.toml --target-dir target/fuzz

fuzz: ## every fuzz target for FUZZ_SECONDS each; needs cargo-fuzz
	@command -v cargo-fuzz >/dev/null || { echo "cargo-fuzz is missing; try: cargo install cargo-fuzz" >&2; exit 1; }
	@for target in $$(sed -n 's/^name = "\(.*\)"/\1/p' fuzz/Cargo.toml | grep -v '^lazy-fuzz$$'); do \
	  echo "== $$target"; \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --target-dir target/fuzz "$$target" -- \
	    -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -timeout=10 -rss_limit_mb=1024 || exit 1; \
	done
