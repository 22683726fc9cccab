# Names for the things one does; what they do stands in scripts/ and in the test harness.
.PHONY: demo test test-fast check bench build clean

demo: ## build, and collect a simulated node before your eyes
	scripts/demo.sh

build: ## the release binary, target/release/kubegc
	scripts/setup.sh build
	cargo build --release --locked

test: ## every test, containerd included; as root
	scripts/test.sh

test-fast: ## what needs no root
	scripts/test.sh fast

check: ## format, lints, docs
	scripts/check.sh

bench: ## planning alone, and whole plans against a bare client
	scripts/bench.sh

clean:
	cargo clean
