# Entry points; the logic is in scripts/.
.PHONY: demo test test-fast test-node test-long test-random test-soak test-churn test-kills test-fleet test-forests test-release fuzz node-up node-down check bench build deb rpm release clean

demo: ## build, then plan and collect on a simulated node in memory
	scripts/demo.sh

build: ## build the release binary, target/release/kubegc
	install -D "$$(scripts/binary.sh)" target/release/kubegc

deb: ## build the Debian package, target/deb/kubegc_VERSION_ARCH.deb
	scripts/deb.sh

rpm: ## build the RPM package, target/rpm/kubegc-VERSION-1.ARCH.rpm
	scripts/rpm.sh

release: ## build all files of a release from a clean checkout, in target/release-VERSION
	scripts/release.sh

test: ## run every test that a commit needs, containerd and a real node included; as root
	scripts/test.sh

test-fast: ## run the tests that need no root
	scripts/test.sh fast

test-node: ## run the tests on a real node with a kubelet; as root
	scripts/test.sh node

test-long: ## run what takes too long for a commit, all of the seven parts below; as root, in a clean checkout
	scripts/test.sh long

test-random: ## check the properties on 5,000 new random inputs each, every small node and cluster, and 12,000 simulated lives
	scripts/test.sh random

test-soak: ## run the agent for ten minutes beside a runtime whose pods come and go; as root
	scripts/test.sh soak

test-churn: ## let a hundred pods come and go for five minutes beside a kubelet; as root
	scripts/test.sh churn

test-kills: ## kill the leader of two controllers and the API server many times; as root
	scripts/test.sh kills

test-fleet: ## measure 1,000 agents beside one API server; as root
	scripts/test.sh fleet

test-forests: ## compare kubegc with kube-controller-manager on 600 random forests of objects; as root
	scripts/test.sh forests

test-release: ## build the files of a release for both architectures, and test them; as root, in a clean checkout
	scripts/test.sh release

fuzz: ## feed random input to all that reads what comes from outside, 60 s each
	scripts/fuzz.sh

node-up: ## start a real node for experiments: etcd, kube-apiserver, kubelet, containerd; as root
	scripts/node.sh up

node-down: ## stop that node
	scripts/node.sh down

check: ## check format, lints, docs, and the licenses and sources of the crates
	scripts/check.sh

bench: ## run the benchmarks: planning alone, whole plans, the watch of pods, scrapes, removals, the controller; as root
	scripts/bench.sh

clean:
	cargo clean
