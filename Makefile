# The whole developer interface. `make help` lists it.
.DEFAULT_GOAL := help
CARGO ?= cargo

# Where `make install` puts the programs of the release profile, and a root folder before that for packages.
PREFIX ?= /usr/local
DESTDIR ?=
PROGRAMS = pinfold kubectl-pinfold pinfold-agent pinfold-scheduler
BUILT = $(or $(CARGO_TARGET_DIR),target)/release

# Images and packages: for which architectures (amd64, arm64), and the names of images.
ARCH ?= amd64
REGISTRY ?= localhost
VERSION = $(shell sed -n '/^\[workspace.package\]/,/^$$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
TAG ?= $(VERSION)
STATIC = target/programs
IMAGES = pinfold-agent pinfold-scheduler kubectl-pinfold

# No target is a file: all that `help` lists.
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\#.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## show this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: ## do the main job on a built-in example: a machine, some pods, one rejection explained
	$(CARGO) run --release --quiet -p pinfold -- demo

build: ## build all programs: pinfold, kubectl-pinfold, pinfold-agent, pinfold-scheduler (PROGRAMS= for some of them)
	$(CARGO) build --release --quiet $(PROGRAMS:%=-p %)

scheduler: ## build both programs of the scheduler into target/release: the engine, and kube-scheduler with the plugin (needs Go)
	$(MAKE) build PROGRAMS=pinfold-scheduler
	$(MAKE) plugin

plugin: ## build pinfold-kube-scheduler, kube-scheduler with the plugin Pinfold, into target/release (needs Go; minutes, once)
	cd scheduler-plugin && CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o "$(abspath $(BUILT))/pinfold-kube-scheduler" .

test-plugin: ## tests and lints of the plugin (needs Go)
	cd scheduler-plugin && test -z "$$(gofmt -l .)" && go vet ./... && go test ./...

plugin-proto: ## generate the plugin's messages again from engine.proto (needs protoc and Go)
	cd scheduler-plugin && CGO_ENABLED=0 go build -o ../target/protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go \
	&& PATH="$(CURDIR)/target:$$PATH" protoc -I proto --go_out=proto --go_opt=paths=source_relative engine.proto

install: ## install the programs that were built, their completions and man pages (PREFIX=, DESTDIR=)
	@set -e; built=; to="$(DESTDIR)$(PREFIX)"; \
	bash="$$to/share/bash-completion/completions"; zsh="$$to/share/zsh/site-functions"; \
	fish="$$to/share/fish/vendor_completions.d"; man="$$to/share/man/man1"; \
	for program in $(PROGRAMS); do \
		own="$(BUILT)/$$program"; \
		[ -x "$$own" ] || continue; \
		built="$$built $$program"; \
		install -D -m 0755 "$$own" "$$to/bin/$$program"; \
		mkdir -p "$$bash" "$$zsh" "$$fish" "$$man"; \
		"$$own" completions bash >"$$bash/$$program"; \
		"$$own" completions zsh >"$$zsh/_$$program"; \
		"$$own" completions fish >"$$fish/$$program.fish"; \
		"$$own" man "$$man"; \
		if [ $$program = kubectl-pinfold ]; then ln -sf kubectl-pinfold "$$to/bin/kubectl_complete-pinfold"; fi; \
	done; \
	[ -n "$$built" ] || { echo "nothing is built in $(BUILT): run make build first" >&2; exit 1; }; \
	echo "installed in $$to:$$built"

images: ## static programs in images from scratch, as OCI archives in target/images (ARCH="amd64 arm64", REGISTRY=, TAG=; needs Go and Python; no daemon)
	@set -e; for arch in $(ARCH); do \
		deploy/packaging/programs $(STATIC) $$arch; \
	done
	deploy/packaging/images.py --programs $(STATIC) --out target/images --registry $(REGISTRY) --tag $(TAG) $(ARCH)

push: ## push the images of `make images` (REGISTRY=, TAG=, SKOPEO_FLAGS=; needs skopeo)
	@set -e; [ "$(REGISTRY)" != localhost ] || { echo "expected REGISTRY=HOST/PATH" >&2; exit 2; }; \
	for image in $(IMAGES); do \
		skopeo copy --all $(SKOPEO_FLAGS) oci-archive:target/images/$$image-$(TAG).oci.tar docker://$(REGISTRY)/$$image:$(TAG); \
	done

dist: ## tarballs, a Debian package, a krew manifest and checksums in target/dist-VERSION (ARCH="amd64 arm64"; needs Python and dpkg-deb)
	@set -e; for arch in $(ARCH); do \
		deploy/packaging/programs $(STATIC) $$arch pinfold kubectl-pinfold pinfold-agent; \
	done
	deploy/packaging/dist.py --programs $(STATIC) --out target/dist-$(VERSION) --version $(VERSION) $(ARCH)

test-packaging: ## tests of what writes images and packages (needs Python)
	python3 -m unittest discover -s deploy/packaging/tests

test: ## unit, property, snapshot and conformance tests, randomized ones with the seeds of .cargo/config.toml
	$(CARGO) test --workspace --quiet

lint: ## formatting and lints, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

bench: ## CPU time and instructions of every decision beside the kubelet's
	$(CARGO) run --release --quiet -p pinfold-bench

bench-docs: ## the same, and write docs/benchmarks.md
	$(CARGO) run --release --quiet -p pinfold-bench -- --write-docs

vectors: ## test vectors made by a program's own code (needs Go): PROGRAM=kubelet-1.33, koordinator, volcano or scheduler-plugins, SEED=7 OUT=folder, CASES=n, FAMILY=names and MERGES=n if wanted
	@[ -n "$(PROGRAM)" ] && [ -n "$(SEED)" ] && [ -n "$(OUT)" ] || { echo "usage: make vectors PROGRAM=kubelet-1.33 SEED=7 OUT=folder [CASES=n] [FAMILY=a,b] [MERGES=n]" >&2; exit 1; }
	program=$$(conformance/generate/build "$(PROGRAM)") && "$$program" -seed "$(SEED)" -out "$(OUT)" $(CASES:%=-cases %) $(FAMILY:%=-family %) $(MERGES:%=-merges %)

fuzz: ## a bounded number of random inputs for every parser (FUZZ_RUNS, FUZZ_SECONDS, FUZZ_SEED)
	CARGO="$(CARGO)" fuzz/run

soak: ## 1,000 kills of the agent (as root), then property tests, random histories and fuzzing with fresh seeds for 20 minutes (SOAK_MINUTES; SOAK_SEED repeats a round)
	CARGO="$(CARGO)" .ci/soak

e2e: ## all end-to-end suites: real kernels, container runtimes, device plugins and control planes (root; builds Kubernetes with Go, once)
	$(CARGO) run --quiet -p e2e -- all

e2e-host: ## runs on this very machine: pinned, killed, cleaned up
	$(CARGO) run --quiet -p e2e -- host

e2e-numa: ## emulated NUMA machines with real kernels (installs QEMU when run as root)
	$(CARGO) run --quiet -p e2e -- numa

e2e-nri: ## plugins with real container runtimes (root; fetches containerd and runc, builds one with Go)
	$(CARGO) run --quiet -p e2e -- nri

e2e-devices: ## the device manager with a real device plugin on another gRPC (needs Python, fetches grpcio)
	$(CARGO) run --quiet -p e2e -- devices

e2e-page: ## the web page in a real browser (installs chromium when run as root, fetches axe-core from npm); screenshots in target/page
	$(CARGO) run --quiet -p e2e -- page

page-pictures: ## the same, and draw the pictures of docs/page.md again
	PINFOLD_E2E_PAGE_DOCS=1 $(CARGO) run --quiet -p e2e -- page

e2e-api: ## the agent's link to a real API server (builds etcd and kube-apiserver with Go, many minutes, once)
	$(CARGO) run --quiet -p e2e -- api

e2e-agent: ## the node agent with a real container runtime, here and in an emulated machine (root; fetches runc and a kernel, builds containerd with Go)
	$(CARGO) run --quiet -p e2e -- agent agent-guest

e2e-helm: ## the Helm chart with a real Helm and a real API server (builds them with Go, once)
	$(CARGO) run --quiet -p e2e -- helm

e2e-install: ## the images, the chart and the installation pages as users run them, with a real kubelet and containerd (root; takes many minutes; PINFOLD_E2E_INSTALL names stories)
	$(CARGO) run --quiet -p e2e -- install

e2e-cluster: ## the scheduler with a real control plane and a real kubelet (root; builds Kubernetes with Go, once)
	$(CARGO) run --quiet -p e2e -- cluster

e2e-node-long: ## an emulated node with two NUMA nodes, a real kubelet, containerd and device plugin: a takeover and back, mode manage, mode mirror under all policies (root; builds Kubernetes with Go, once; PINFOLD_E2E_NODE names themes)
	$(CARGO) run --quiet -p e2e -- node-long

e2e-crio: ## the agent with CRI-O, which is built with Go once (root; installs conmon and skopeo; PINFOLD_E2E_AGENT_SEED repeats a run)
	$(CARGO) run --quiet -p e2e -- crio

e2e-peers: ## the schedulers and agents of Koordinator, Volcano, scheduler-plugins and NFD beside ours (root; builds them with Go, once; PINFOLD_E2E_PEERS_SEED repeats a run, PINFOLD_E2E_PEERS names themes, PINFOLD_E2E_PEERS_RECORD=1 writes conformance/peers)
	$(CARGO) run --quiet -p e2e -- peers

soak-filters: ## random pods of a fresh seed: a real kube-scheduler and pinfold simulate agree (PINFOLD_E2E_FILTER_SEED repeats one)
	PINFOLD_E2E_STORIES=filters PINFOLD_E2E_FILTER_SEED=$${PINFOLD_E2E_FILTER_SEED:-fresh} $(CARGO) run --quiet -p e2e -- cluster

bench-agent: ## 250 containers at once and ten minutes of coming and going with the node agent (root); writes a part of docs/benchmarks.md
	$(CARGO) run --quiet -p e2e -- agent-bench

bench-originals: ## the kubelet's own functions on the inputs of `make bench`, after it on the same machine (needs Go); writes a part of docs/benchmarks.md
	$(MAKE) bench
	program=$$(conformance/generate/build kubelet-1.36) && "$$program" -bench target/bench.json >target/originals.jsonl
	cd conformance/generate && go run ./beside ../../docs/benchmarks.md ../../target/bench.json ../../target/originals.jsonl "$$(cut -d' ' -f1 /proc/loadavg)"

bench-cluster: ## 5,000 nodes and 10,000 pods through a real kube-scheduler (SIZE=nodes,pods for others); writes a part of docs/benchmarks.md
	$(CARGO) run --quiet -p e2e -- cluster-bench

bench-memory: ## memory of the scheduler's engine with 5,000 nodes and 150,000 pods
	$(CARGO) run --release --quiet -p pinfold-bench -- --memory

bench-build: ## CPU time of make run and make test from a fresh clone, and the size of pinfold
	.ci/build-times
