# Names for the things one does; what they do stands in scripts/ and in the test harness.
.PHONY: demo test test-fast test-node node-up node-down check bench build clean

demo: ## build, and collect a simulated node before your eyes
	scripts/demo.sh

build: ## the release binary, target/release/kubegc
	scripts/setup.sh build
	cargo build --release --locked

test: ## every test, containerd and a real node included; as root
	scripts/test.sh

test-fast: ## what needs no root
	scripts/test.sh fast

test-node: ## what runs on a real node with a kubelet; as root
	scripts/test.sh node

node-up: ## a real node to try things on: etcd, kube-apiserver, kubelet, containerd; as root
	scripts/node.sh up

node-down: ## ends it
	scripts/node.sh down

check: ## format, lints, docs
	scripts/check.sh

bench: ## planning alone, and whole plans against a bare client
	scripts/bench.sh

clean:
	cargo clean
