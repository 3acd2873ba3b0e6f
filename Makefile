# Slipway. `make help` lists what can be done.

SHELL := /bin/bash
.DEFAULT_GOAL := help

VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT     ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
KUBERNETES := $(shell sed -n 's/^\tk8s.io\/kubernetes v//p' devcluster/go.mod)
KUBE_PARTS := $(subst ., ,$(KUBERNETES))

LDFLAGS := -s -w -X slipway.dev/slipway/internal/cli/buildinfo.version=$(VERSION) -X slipway.dev/slipway/internal/cli/buildinfo.commit=$(COMMIT)
# The API server reports these; without them it says v0.0.0-master.
KUBE_VERSION := k8s.io/component-base/version
KUBE_LDFLAGS := -s -w -X $(KUBE_VERSION).gitVersion=v$(KUBERNETES) \
	-X $(KUBE_VERSION).gitMajor=$(word 1,$(KUBE_PARTS)) -X $(KUBE_VERSION).gitMinor=$(word 2,$(KUBE_PARTS)) \
	-X $(KUBE_VERSION).gitCommit= -X $(KUBE_VERSION).gitTreeState=release

# One set of flags for building, vetting and testing, so that Kubernetes is compiled once; scripts/test.sh has the same.
# Binaries are stripped, so nothing would read the DWARF that the compiler spends an eighth of its time on.
# The firewall has no access to files, and none of the operators that open connections or run programs (decision 0060).
GO_TAGS   := no_fs_access,coraza.disabled_operators.validateSchema,coraza.disabled_operators.rbl,coraza.disabled_operators.inspectFile
GO_FLAGS  := $(GOFLAGS) -trimpath -buildvcs=false -gcflags=all=-dwarf=false -tags=$(GO_TAGS)
GO_STATIC := CGO_ENABLED=0 GOFLAGS="$(GO_FLAGS)"
# The compiler collects no garbage below a gigabyte: an eighth less processor time than with GOGC=800 for more memory. One
# package more than there are processors is compiled at a time, because the compiler also waits for files.
GO_BUILD  := CGO_ENABLED=0 GOGC=off GOMEMLIMIT=1GiB GOFLAGS="$(GO_FLAGS) -p=$(shell expr $$(nproc) + 1)"

# What releases, the image and its benchmark are compiled by: the calls that the edge makes most are inlined. A build for
# development goes without, because the tests would compile everything once more.
PROFILE := -pgo=$(CURDIR)/cmd/slipway/release.pgo

# The timeout only ends a package that hangs: every wait in a test has a bound of its own.
HANG_GUARD := -timeout 80m
TEST_FLAGS := -vet=off -ldflags='-s -w' $(HANG_GUARD)

# What there is to look at without all of Kubernetes, which vet and staticcheck read as well.
DEVCLUSTER := ./demo/... ./node/... ./pki/... ./statedir/...

.PHONY: help
help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 28

# What the two programs are made of, but for what has the console in it. The workspace compiles it in one run, in which no
# processor waits for the end of the first program, and npm, which mostly waits, runs beside it; each program is then linked
# on its own, with the flags of its own.
PARTS := ./internal/agent ./internal/controller ./internal/install/lifecycle ./internal/platform/fleet ./internal/platform/gateway \
	./internal/platform/hub ./internal/platform/identity ./devcluster/controlplane ./devcluster/demo ./devcluster/node k8s.io/kubectl/pkg/cmd

.PHONY: build
build: ## Build bin/slipway and bin/slipway-devcluster (several minutes the first time)
	@test -x bin/slipway-devcluster || echo "Building Slipway and Kubernetes $(KUBERNETES); the first time takes about eight minutes on two cores."
	@$(MAKE) --no-print-directory -j2 console parts
	@$(MAKE) --no-print-directory -j2 build-slipway build-devcluster

.PHONY: parts
parts:
	GOWORK=$(CURDIR)/build.work $(GO_BUILD) go build $(PARTS)

# What npm installed, and what it built: made anew when what they come from is newer.
CONSOLE_MODULES := web/node_modules/.package-lock.json
CONSOLE         := internal/platform/console/dist/app/index.html

$(CONSOLE_MODULES): web/package-lock.json
	cd web && npm ci --no-audit --no-fund
	@touch $@

$(CONSOLE): $(CONSOLE_MODULES) $(wildcard $(shell git ls-files -co --exclude-standard web))
	cd web && npm run build

.PHONY: console-modules
console-modules: $(CONSOLE_MODULES) ## Install what the console is built with

.PHONY: console
console: $(CONSOLE) ## Build the console that bin/slipway has in it

.PHONY: build-slipway
build-slipway: console ## Build bin/slipway with the console
	@mkdir -p bin
	$(GO_BUILD) go build $(PGO) -ldflags '$(LDFLAGS)' -o bin/slipway ./cmd/slipway

.PHONY: build-devcluster
build-devcluster: ## Build bin/slipway-devcluster: Kubernetes for development and tests
	@mkdir -p bin
	@test -x bin/slipway-devcluster || test $(MAKELEVEL) -gt 0 || echo "Building Kubernetes $(KUBERNETES); the first time takes about six minutes on two cores."
	cd devcluster && $(GO_BUILD) go build -ldflags '$(KUBE_LDFLAGS)' -o ../bin/slipway-devcluster ./cmd/slipway-devcluster

.PHONY: build-node
build-node: ## Build bin/slipway-node: the kubelet and kube-proxy of the end-to-end test
	@mkdir -p bin
	cd devcluster && $(GO_BUILD) go build -ldflags '$(KUBE_LDFLAGS)' -o ../bin/slipway-node ./cmd/slipway-node

# The time of the commit and not that of the building: the same commit gives the same image.
COMMIT_TIME := SOURCE_DATE_EPOCH=$(shell git log -1 --format=%ct 2>/dev/null || echo 0)
IMAGE       ?= slipway.dev/slipway:$(VERSION)
AUTHORITIES := /etc/ssl/certs/ca-certificates.crt
OCI_IMAGE   := $(COMMIT_TIME) $(GO_STATIC) go run ./internal/tools/ociimage
SBOM        := $(COMMIT_TIME) $(GO_STATIC) go run ./internal/tools/sbom --version $(VERSION)

.PHONY: image
image: PGO := $(PROFILE)
image: build-slipway ## Write the container image to bin/slipway-image.tar, without a container engine, and its bill of materials
	@scripts/install-packages.sh image
	$(SBOM) --binary bin/slipway --console web/package-lock.json --out bin/slipway.cdx.json
	$(SBOM) --binary bin/slipway --console web/package-lock.json --image $(IMAGE) --authorities $(AUTHORITIES) --out bin/slipway-image.cdx.json
	$(OCI_IMAGE) --out bin/slipway-image.tar --binary bin/slipway --authorities $(AUTHORITIES) --sbom bin/slipway-image.cdx.json \
		--name $(IMAGE) --version $(VERSION) --revision $(COMMIT)

.PHONY: sbom
sbom: image build-devcluster ## Write the software bills of materials of both programs and the image: bin/*.cdx.json
	$(SBOM) --binary bin/slipway-devcluster --out bin/slipway-devcluster.cdx.json

.PHONY: sign
sign: sbom ## Sign programs, bills of materials and image with KEY, a private key, for cosign and openssl to verify
	$(GO_STATIC) go run ./internal/tools/sign --key "$(KEY)" bin/slipway bin/slipway-devcluster bin/*.cdx.json bin/slipway-image.tar

# A release has the version of the charts, whose image has that tag.
RELEASE       ?= dist
CHART_VERSION := $(shell sed -n 's/^appVersion: //p' charts/gitops-runtime/Chart.yaml)

# macOS has the client: commands about platforms, runtimes and clusters. The roles and slipway up are for Linux.
PLATFORMS ?= linux-amd64 linux-arm64 darwin-amd64 darwin-arm64
SERVERS    = $(filter linux-%,$(PLATFORMS))

.PHONY: release
release: ## Write programs of all platforms, image, charts, packages, bills of materials and checksums to RELEASE (dist without it); signed if KEY is given
	rm -rf bin/release
	$(MAKE) release-files VERSION=$(CHART_VERSION)
	$(COMMIT_TIME) scripts/release.sh bin/release $(RELEASE)
	$(if $(KEY),$(GO_STATIC) go run ./internal/tools/sign --key "$(KEY)" $(RELEASE)/slipway-image.tar $(RELEASE)/SHA256SUMS)

# A platform is OS-ARCHITECTURE. The go command decides what has to be compiled again.
CROSS = GOOS=$(word 1,$(subst -, ,$*)) GOARCH=$(word 2,$(subst -, ,$*)) $(GO_BUILD)

.PHONY: always
bin/release/%/slipway: always console
	@mkdir -p $(@D)
	$(CROSS) go build $(PROFILE) -ldflags '$(LDFLAGS)' -o $@ ./cmd/slipway

bin/release/%/slipway-devcluster: always
	@mkdir -p $(@D)
	cd devcluster && $(CROSS) go build -ldflags '$(KUBE_LDFLAGS)' -o ../$@ ./cmd/slipway-devcluster

.PHONY: release-files
release-files: $(PLATFORMS:%=bin/release/%/slipway) $(SERVERS:%=bin/release/%/slipway-devcluster)
	@scripts/install-packages.sh image
	set -e; for platform in $(PLATFORMS); do $(SBOM) --binary bin/release/$$platform/slipway --console web/package-lock.json --out bin/release/$$platform/slipway.cdx.json; done
	set -e; for platform in $(SERVERS); do \
		$(SBOM) --binary bin/release/$$platform/slipway-devcluster --out bin/release/$$platform/slipway-devcluster.cdx.json; \
		$(SBOM) --binary bin/release/$$platform/slipway --console web/package-lock.json --image $(IMAGE) --authorities $(AUTHORITIES) --out bin/release/$$platform/slipway-image.cdx.json; \
	done
	$(OCI_IMAGE) --out bin/release/slipway-image.tar $(foreach platform,$(SERVERS),--binary bin/release/$(platform)/slipway --sbom bin/release/$(platform)/slipway-image.cdx.json) \
		--authorities $(AUTHORITIES) --name $(IMAGE) --version $(VERSION) --revision $(COMMIT)

.PHONY: release-check
release-check: ## Write the release twice and compare it; then install it from its folder and run slipway up, as a newcomer does (about 40 minutes with a cold cache)
	scripts/release-check.sh

.PHONY: reproducible
reproducible: ## Build program and image of the last commit twice, and compare them (about 5 minutes on two cores)
	scripts/reproducible.sh

.PHONY: e2e
e2e: build build-node ## Install, upgrade under traffic and uninstall Slipway on a real node (root; about 5 minutes after the building; see E2E_FLAGS)
	@scripts/install-packages.sh e2e
	@mkdir -p bin/e2e
	$(GO_BUILD) go build -ldflags '-s -w' -o bin/slipway-e2e ./test/e2e
	$(OCI_IMAGE) --out bin/e2e/slipway.tar --binary bin/slipway --name slipway.dev/slipway:e2e-1 --version $(VERSION) --revision $(COMMIT)
	$(OCI_IMAGE) --out bin/e2e/pause.tar --binary bin/slipway-e2e --authorities= --name slipway.dev/e2e-pause:v1 pause
	$(OCI_IMAGE) --out bin/e2e/web.tar --binary bin/slipway-e2e --authorities= --name slipway.dev/e2e-web:v1 web
	scripts/e2e.sh $(E2E_FLAGS)

# The programs of the conformance suite, from a Go module of their own.
CONFORMANCE := $(CURDIR)/bin/conformance

.PHONY: conformance
conformance: build ## Run the upstream conformance suite of the Gateway API against the edge (see CONFORMANCE_FLAGS, CONFORMANCE_SUITE and docs/conformance)
	@mkdir -p $(CONFORMANCE)
ifdef CONFORMANCE_SUITE
	scripts/conformance-suite.sh $(CONFORMANCE_SUITE) $(CONFORMANCE)
else
	cd test/conformance/gateway/suite && $(GO_BUILD) go test -c -vet=off -ldflags '-s -w' -o $(CONFORMANCE)/suite sigs.k8s.io/gateway-api/conformance
	cd test/conformance/gateway/suite && $(GO_BUILD) go build -ldflags '-s -w' -o $(CONFORMANCE)/ sigs.k8s.io/gateway-api/conformance/echo-basic ./nameserver
endif
	SLIPWAY_UNDER_TEST=$(CURDIR)/bin/slipway CONFORMANCE_PROGRAMS=$(CONFORMANCE) CONFORMANCE_VERSION=$(VERSION) \
		CONFORMANCE_FLAGS="$(CONFORMANCE_FLAGS)" CONFORMANCE_DEFINITIONS=$(if $(CONFORMANCE_SUITE),$(CONFORMANCE)/crd) \
		$(GO_STATIC) go test -v -count=1 $(TEST_FLAGS) -run TestConformance ./test/conformance/gateway

# Clients of Gateways, from a Go module of their own.
CLIENTS := $(CURDIR)/bin/gateway-clients

.PHONY: gateway-clients
gateway-clients: deps build ## Run cert-manager and external-dns, built from their modules, on Gateways and ListenerSets (about 5 minutes with a cold cache)
	@mkdir -p $(CLIENTS)
	cd test/gatewayclients/testdata/clients && $(GO_BUILD) go build -ldflags '-s -w' -o $(CLIENTS)/ ./certmanager ./acmesolver sigs.k8s.io/external-dns
	SLIPWAY_UNDER_TEST=$(CURDIR)/bin/slipway GATEWAY_CLIENTS=$(CLIENTS) $(GO_STATIC) go test -v -count=1 $(TEST_FLAGS) ./test/gatewayclients

ROLLOUTS := $(CURDIR)/bin/rollouts-controller

.PHONY: argo-rollouts
argo-rollouts: deps build ## Run canaries of Argo Rollouts, whose controller is built from its module, through the edge by trafficRouting.nginx, and record what it makes of Rollouts and AnalysisRuns (about 10 minutes with a cold cache)
	cd test/argorollouts/testdata/controller && $(GO_BUILD) go build -ldflags '-s -w' -o $(ROLLOUTS) github.com/argoproj/argo-rollouts/cmd/rollouts-controller
	SLIPWAY_UNDER_TEST=$(CURDIR)/bin/slipway ARGO_ROLLOUTS=$(ROLLOUTS) $(GO_STATIC) go test -v -count=1 $(TEST_FLAGS) ./test/argorollouts
	ARGO_ROLLOUTS=$(ROLLOUTS) ARGO_ROLLOUTS_MODULE=$$(cd test/argorollouts/testdata/controller && go list -m -f '{{.Dir}}' github.com/argoproj/argo-rollouts) \
		$(GO_STATIC) go test -v -count=1 -parallel 6 $(HANG_GUARD) -run TestUpstream ./internal/gitops/rollout
	ARGO_ROLLOUTS=$(ROLLOUTS) ARGO_ROLLOUTS_MODULE=$$(cd test/argorollouts/testdata/controller && go list -m -f '{{.Dir}}' github.com/argoproj/argo-rollouts) \
		$(GO_STATIC) go test -v -count=1 $(HANG_GUARD) -run TestArgoRollouts ./internal/gitops/analysis

.PHONY: up
up: build ## Run everything on this machine; Ctrl-C stops it
	bin/slipway up $(UP_FLAGS)

.PHONY: deps
deps: ## Install the Debian packages that the tests need and the machine lacks
	@scripts/install-packages.sh

.PHONY: test
test: deps build vet ## Check and test everything: formatting, vet; tests of packages, some with the race detector, then of whole programs and the console in a browser
	scripts/test.sh

.PHONY: install-pages
install-pages: deps build ## Follow every page of docs/install, command by command, on a cluster (about 8 minutes)
	INSTALL_PAGES=all $(GO_STATIC) go test -v -count=1 $(HANG_GUARD) -run 'TestInstallPages|TestTable' ./test/documents

.PHONY: waf-regression
waf-regression: ## Send all tests of the OWASP Core Rule Set through the edge, and compare its matches with those of Coraza alone (about 3 minutes)
	WAF_REGRESSION=all $(GO_STATIC) go test -v -count=1 $(TEST_FLAGS) -run TestRegression ./internal/edge/waf

.PHONY: documents
documents: deps build ## Follow the documents of a runtime in every access mode and with six controllers, on a cluster (about 8 minutes)
	DOCUMENTS=all $(GO_STATIC) go test -v -count=1 $(HANG_GUARD) -run 'TestDocuments|TestScripts' ./test/documents

.PHONY: argocd-cli
argocd-cli: deps build ## Build the argocd command from its module and run it against a platform and an agent, and as argocd-cmp-server with plugins (about 9 minutes)
	cd test/argocdcli && $(GO_BUILD) go build -ldflags '-s -w' -o $(CURDIR)/bin/argocd github.com/argoproj/argo-cd/v3/cmd
	ARGOCD=$(CURDIR)/bin/argocd $(GO_STATIC) go test -v -count=1 $(HANG_GUARD) -run 'TestRuntime/postgres/(join|git|operate|argocd)' ./test/runtime
	ARGOCD=$(CURDIR)/bin/argocd $(GO_STATIC) go test -v -count=1 $(HANG_GUARD) -run TestGitops/cmp-server ./test/gitops

.PHONY: argocd-oracle
argocd-oracle: deps build ## Run Argo CD's ApplicationSet controller, built from its module, record its Applications, and compare (about 8 minutes)
	scripts/install-packages.sh oracle
	cd test/argocdcli && $(GO_BUILD) go build -ldflags '-s -w' -o $(CURDIR)/bin/argocd github.com/argoproj/argo-cd/v3/cmd
	ARGOCD=$(CURDIR)/bin/argocd ARGOCD_MODULE=$$(cd test/argocdcli && go list -m -f '{{.Dir}}' github.com/argoproj/argo-cd/v3) \
		$(GO_STATIC) go test -v -count=1 $(HANG_GUARD) -run TestArgoCD ./internal/gitops/appset

.PHONY: race
race: deps build ## Test all packages with the race detector (about 25 minutes)
	GOFLAGS="$(GOFLAGS) -gcflags=all=-dwarf=false" go test -race -p 3 $(TEST_FLAGS) ./api/... ./internal/... # flags of scripts/test.sh

.PHONY: vet
vet: console-modules ## Formatting and go vet, and the same for the console
	@unformatted=$$(git ls-files '*.go' | xargs -r gofmt -l); test -z "$$unformatted" || { echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	$(GO_BUILD) go vet ./...
	cd devcluster && $(GO_BUILD) go vet $(DEVCLUSTER)
	cd web && npm run check

.PHONY: lint
lint: vet ## Also staticcheck, and vet for all of devcluster (five minutes more with a cold cache)
	$(GO_BUILD) go build -o bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	$(GO_STATIC) bin/staticcheck ./...
	cd devcluster && $(GO_STATIC) ../bin/staticcheck $(DEVCLUSTER)
	cd devcluster && $(GO_BUILD) go vet $$(go list ./... | grep -v /cmd/slipway-node) # which would compile a kubelet

.PHONY: vuln
vuln: ## Report known vulnerabilities in what the programs call; VULN_DB is a folder or an address instead of vuln.go.dev
	VULN_DB="$(VULN_DB)" scripts/vuln.sh

.PHONY: generate
generate: console-modules ## Write generated files anew: docs/reference, the CustomResourceDefinitions, the API, the values of the charts, dashboards and alerts
	$(GO_STATIC) go run ./cmd/slipway docs --dir docs/reference
	$(GO_STATIC) go run ./internal/tools/routeref
	$(GO_STATIC) go run ./internal/tools/annotationref
	$(GO_STATIC) go run ./internal/tools/argocrds
	$(GO_STATIC) go run ./internal/tools/gatewaycrds
	$(GO_STATIC) go run ./internal/tools/protogen
	$(GO_STATIC) go run ./internal/tools/chartgen
	$(GO_STATIC) go run ./internal/tools/monitoring

.PHONY: bench
bench: ## Run the Go benchmarks
	$(GO_STATIC) go test -run '^$$' -bench . -benchmem ./...

.PHONY: bench-edge
bench-edge: PGO := $(PROFILE)
bench-edge: build-slipway ## Measure the edge beside nginx, HAProxy and Caddy (about 35 minutes; see BENCH_FLAGS)
	@scripts/install-packages.sh bench
	$(GO_STATIC) go run ./test/bench/edgebench $(BENCH_FLAGS)

.PHONY: profile
profile: build-slipway ## Record cmd/slipway/release.pgo, by which releases are compiled, under loads of bench-edge (about 2 minutes)
	@scripts/install-packages.sh bench
	$(GO_STATIC) scripts/profile.sh

.PHONY: bench-ingress
bench-ingress: build ## Measure the edge with 1,000, 5,000 and 10,000 Ingresses on a real API server (about 20 minutes; see BENCH_FLAGS)
	$(GO_STATIC) go run ./test/bench/ingressbench $(BENCH_FLAGS)

.PHONY: bench-gitops
bench-gitops: build ## Measure the agent with 100, 500 and 1,000 Applications on a real API server (about 40 minutes; see BENCH_FLAGS: -sizes 10000 has goals of its own, -agents 1,2 compares two agents with one)
	$(GO_STATIC) go run ./test/bench/gitopsbench $(BENCH_FLAGS)

.PHONY: bench-tunnel
bench-tunnel: ## Measure the tunnel beside requests that go directly (about 2 minutes; see BENCH_FLAGS)
	$(GO_STATIC) go run ./test/bench/tunnelbench $(BENCH_FLAGS)

.PHONY: bench-platform
bench-platform: build-slipway ## Measure the platform with 100 and 1,000 simulated runtimes of 100 Applications over real tunnels (about 6 minutes; see BENCH_FLAGS)
	$(GO_STATIC) go run ./test/bench/platformbench $(BENCH_FLAGS)

.PHONY: resilience
resilience: deps ## Attack the edge and kill the agent for long: slow clients, a minute of each flood, 100 kills (about 30 minutes)
	RESILIENCE=long $(GO_STATIC) go test -count=1 $(HANG_GUARD) -v ./test/resilience/...

.PHONY: divide
divide: deps build-devcluster ## Kill, pause or end one of three agents that divide Applications every 10 s for ten minutes: no two may write for one at a time (about 12 minutes)
	RESILIENCE=long $(GO_STATIC) go test -count=1 -timeout 1h -v -run TestGitops/divide ./test/resilience/gitops

.PHONY: failover
failover: deps ## Kill the primary of the platform's database under load three times: reports are written again within 10 s, and none is lost (about 3 minutes)
	FAILOVER=long $(GO_STATIC) go test -count=3 $(TEST_FLAGS) -v -run 'TestDatabaseFailover$$' ./test/platform

.PHONY: promotions
promotions: deps build-devcluster ## Kill promotions at each write, and the agent a hundred times while it sends notifications: nothing is lost or comes twice (about 5 minutes)
	RESILIENCE=long $(GO_STATIC) go test -count=1 $(TEST_FLAGS) -v -run 'TestKill$$' ./internal/gitops/promotion
	RESILIENCE=long $(GO_STATIC) go test -count=1 $(TEST_FLAGS) -v -run 'TestGitops/notifications' ./test/resilience/gitops

.PHONY: limits
limits: ## Measure one rate limit over three edges with h2load, and kill one of them every 10 s for ten minutes under 2,000 requests/s (about 15 minutes; LIMITS_SECONDS and LIMITS_RATE change the latter)
	scripts/install-packages.sh limits
	LIMITS=long $(GO_STATIC) go test -count=1 $(HANG_GUARD) -v ./test/limits

.PHONY: progressive
progressive: deps build-devcluster ## Release good and bad revisions of a Deployment under load, with faults, an autoscaler, a kill at each write, and 300 releases that the judge decides about
	PROGRESSIVE=long $(GO_STATIC) go test -count=1 -timeout 4h -v ./test/progressive
	RESILIENCE=long $(GO_STATIC) go test -count=1 -timeout 1h -v -run TestReleaseSurvives ./internal/gitops/reconcile

.PHONY: churn
churn: deps build-devcluster ## Change routes, listeners, certificates and endpoints of Gateways for CHURN, 10m without it, under requests of five protocols
	CHURN=$(or $(CHURN),10m) $(GO_STATIC) go test -count=1 $(TEST_FLAGS) -v -run 'TestIngress/gateways' ./test/resilience/ingress

.PHONY: shadow
shadow: deps ## Compare 100,000 requests of nginx and the edge with the same configuration: slipway migrate shadow must report none (about 2 minutes)
	SHADOW_REQUESTS=100000 $(GO_STATIC) go test -count=1 $(HANG_GUARD) -v -run TestIdentical ./test/shadow

.PHONY: tenancy-mutations
tenancy-mutations: deps build-devcluster ## Remove guards between tenants from the program, one by one: an attempt of test/tenancy must succeed without each (about 5 minutes)
	TENANCY=mutations $(GO_STATIC) go test -count=1 $(HANG_GUARD) -v -run TestMutations ./test/tenancy

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME, 10m each without it
	scripts/fuzz.sh

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin
