package archtest

// Table defines for every package of a module what it may import.
//
// Patterns are written as for the go command. ./internal/edge/... is that
// package of the checked module and everything below it, ./internal/cli only
// the package itself; k8s.io/... is foreign code. If several rows match a
// package, the longest pattern wins.
type Table struct {
	Rows  []Row
	Never []Ban // for every package
}

// Row is the rule for the packages that its pattern covers. They may always
// import each other.
type Row struct {
	Packages string
	MayUse   []string // packages of the module
	Foreign  []string // code that is neither ours nor the standard library's
	Never    []Ban
}

// Ban forbids the use of a package, directly or through any other package. The
// reason is part of the finding.
type Ban struct {
	Package string
	Except  string // patterns of packages that may, separated by spaces
	Reason  string
}

// HouseTable returns the table of docs/architecture.md. A new package needs a
// row here and on that page.
func HouseTable() Table {
	const (
		api         = "./api/..."
		backoff     = "./internal/backoff"
		finding     = "./api/finding"
		refusal     = "./api/refusal"
		cache       = "./internal/cache"
		access      = "./internal/access/..."
		agent       = "./internal/agent/..."
		edge        = "./internal/edge/..."
		gitops      = "./internal/gitops/..."
		gitprovider = "./internal/gitprovider/..."
		gitserver   = "./internal/gitserver"
		ingress     = "./internal/ingress/..."
		kube        = "./internal/kube/..."
		must        = "./internal/must"
		outbound    = "./internal/outbound"
		observe     = "./internal/observe/..."
		platform    = "./internal/platform/..."
		programs    = "./internal/programs"
		release     = "./internal/release/..."
		rights      = "./internal/rights"
		route       = "./internal/route/..."
		secret      = "./internal/secret"
		web         = "./web/..."
		wire        = "./internal/wire/..."
	)
	anything := []string{"..."}
	var nothing []string

	return Table{
		Never: houseBans(),
		Rows: append([]Row{
			// Values that the planes exchange.
			{Packages: route, MayUse: []string{refusal, secret}, Foreign: nothing, Never: []Ban{
				{Package: "net/http/...", Reason: "the routing table is plain values and serves nothing"},
			}},
			{Packages: wire, MayUse: []string{secret}, Foreign: []string{"google.golang.org/protobuf/..."}, Never: []Ban{
				{Package: "net/http/...", Reason: "messages do not know how they travel"},
			}},
			// Generated Connect clients and handlers.
			{Packages: "./internal/wire/platformv1/platformv1connect", MayUse: []string{wire}, Foreign: []string{"connectrpc.com/connect"}},
			{Packages: "./internal/wire/runtimev1/runtimev1connect", MayUse: []string{wire}, Foreign: []string{"connectrpc.com/connect"}},
			// Connection handling of both ends of a tunnel.
			{Packages: "./internal/wire/link", MayUse: nothing, Foreign: []string{"github.com/coder/websocket", "github.com/hashicorp/yamux"}},
			{Packages: api, MayUse: []string{finding, refusal}, Foreign: anything},
			{Packages: refusal, MayUse: nothing, Foreign: nothing},
			{Packages: finding, MayUse: nothing, Foreign: nothing},

			// The traffic plane.
			{Packages: edge, MayUse: []string{refusal, route, observe, secret, backoff, cache, must}, Foreign: anything, Never: []Ban{
				{Package: "k8s.io/...", Reason: "the edge serves a route.Table and must not know where it comes from"},
				{Package: "sigs.k8s.io/...", Reason: "the edge serves a route.Table and must not know where it comes from"},
				{Package: kube, Reason: "losing the API server never touches traffic"},
				{Package: ingress, Reason: "ingress writes the route.Table, edge reads it; neither knows the other"},
				{Package: gitops, Reason: "delivery and traffic are separate planes"},
				{Package: platform, Reason: "the edge runs without the platform"},
			}},
			// The fixture of the edge's tests.
			{Packages: "./internal/edge/edgetest", MayUse: []string{edge, route, must, programs}, Foreign: anything},
			{Packages: ingress, MayUse: []string{api, route, kube, observe, secret, backoff, cache}, Foreign: anything, Never: []Ban{
				{Package: edge, Reason: "ingress writes the route.Table, edge reads it; neither knows the other"},
			}},
			{Packages: "./internal/ingress/translate/...", MayUse: []string{ingress, api, route, observe, secret}, Foreign: anything, Never: []Ban{
				{Package: kube, Reason: "translate is pure: it gets a resolved Snapshot and sends no requests"},
				{Package: "k8s.io/client-go/...", Reason: "translate is pure: it gets a resolved Snapshot and sends no requests"},
				{Package: edge, Reason: "ingress writes the route.Table, edge reads it; neither knows the other"},
			}},

			// The edge process: the only package that uses ingress and edge.
			{Packages: "./internal/controller/...", MayUse: []string{finding, refusal, "./internal/config", edge, ingress, kube, observe, route, secret}, Foreign: anything},

			// The delivery plane.
			{Packages: gitops, MayUse: []string{kube, api, gitprovider, release, observe, outbound, secret, backoff, cache, must}, Foreign: anything, Never: []Ban{
				{Package: edge, Reason: "delivery and traffic are separate planes"},
				{Package: ingress, Reason: "delivery and traffic are separate planes"},
				{Package: platform, Reason: "a runtime delivers without the platform"},
			}},
			{Packages: release, MayUse: []string{api, release}, Foreign: anything, Never: []Ban{
				{Package: "k8s.io/client-go/...", Reason: "release is pure: it decides and sends no requests"},
			}},
			{Packages: access, MayUse: []string{finding, refusal, wire, observe, secret, backoff}, Foreign: anything, Never: []Ban{
				{Package: platform, Reason: "the two ends of the tunnel share wire and nothing else"},
				{Package: gitops, Reason: "access carries requests and does not know what they do"},
			}},
			{Packages: agent, MayUse: []string{access, api, gitops, gitprovider, kube, "./internal/preflight", release, rights, wire, observe, outbound, secret, backoff, cache}, Foreign: anything, Never: []Ban{
				{Package: platform, Reason: "agent and platform share wire and nothing else"},
				{Package: edge, Reason: "delivery and traffic are separate planes"},
			}},

			// The control plane.
			{Packages: platform, MayUse: []string{finding, refusal, rights, wire, gitprovider, observe, outbound, secret, web, backoff, cache}, Foreign: anything, Never: []Ban{
				{Package: "k8s.io/client-go/...", Reason: "the platform reaches a cluster through its runtime only"},
				{Package: agent, Reason: "agent and platform share wire and nothing else"},
				{Package: edge, Reason: "the edge runs without the platform"},
			}},
			{Packages: gitprovider, MayUse: []string{observe, outbound, secret, backoff, cache}, Foreign: anything},
			{Packages: web, MayUse: nothing, Foreign: nothing},
			{Packages: "./charts", MayUse: nothing, Foreign: nothing},

			// Installation and the local trial.
			{Packages: "./internal/preflight/...", MayUse: []string{api, "./internal/access/mode", kube, gitprovider, observe, secret, wire}, Foreign: anything, Never: []Ban{
				{Package: agent, Reason: "a check runs before there is an agent"},
				{Package: platform, Reason: "a check runs without the platform's code"},
			}},
			{Packages: "./internal/install/...", MayUse: []string{api, "./internal/access/mode", "./internal/config", "./internal/preflight/...", kube, gitprovider, observe, secret, wire, backoff}, Foreign: anything, Never: []Ban{
				{Package: agent, Reason: "the installer runs before there is an agent"},
				{Package: platform, Reason: "the installer runs without the platform's code"},
			}},
			// It reads the shared repository with the code of the runtime.
			{Packages: "./internal/install/lifecycle", MayUse: []string{"./internal/install/...", api, "./charts", "./internal/access/mode", "./internal/agent/sharedrepo", gitops, kube, "./internal/preflight/...", secret, wire, backoff}, Foreign: anything},
			// It reads an installation with the parsers of delivery, rights and clusters.
			{Packages: "./internal/migration", MayUse: []string{api, "./internal/agent/clusters", gitops, kube, rights}, Foreign: anything},
			{Packages: "./internal/release/judge", MayUse: nothing, Foreign: nothing},
			{Packages: "./internal/shadow", MayUse: nothing, Foreign: []string{"golang.org/x/time/rate", "github.com/andybalholm/brotli", "github.com/klauspost/compress/..."}},
			{Packages: gitserver, MayUse: nothing, Foreign: nothing},
			{Packages: "./internal/up/...", MayUse: []string{api, gitserver, kube, observe, secret, wire, backoff}, Foreign: anything, Never: []Ban{
				{Package: edge, Reason: "up starts the parts as processes and looks at them from outside"},
				{Package: agent, Reason: "up starts the parts as processes and looks at them from outside"},
				{Package: platform, Reason: "up starts the parts as processes and looks at them from outside"},
			}},

			// Packages that all planes share.
			{Packages: secret, MayUse: nothing, Foreign: nothing},
			{Packages: backoff, MayUse: nothing, Foreign: nothing},
			{Packages: cache, MayUse: nothing, Foreign: nothing},
			{Packages: outbound, MayUse: nothing, Foreign: nothing},
			{Packages: rights, MayUse: []string{refusal, "./internal/gitops/glob"}, Foreign: nothing},       // both ends decide with it, with patterns of AppProjects
			{Packages: kube, MayUse: []string{observe, secret, backoff, must, programs}, Foreign: anything}, // kubetest runs its cluster with programs
			{Packages: must, MayUse: nothing, Foreign: nothing},
			{Packages: "./internal/archives", MayUse: []string{must}, Foreign: []string{"golang.org/x/tools/txtar"}},
			{Packages: programs, MayUse: []string{must}, Foreign: []string{"golang.org/x/sys/..."}},
			{Packages: observe, MayUse: []string{refusal, secret, backoff}, Foreign: anything},
			// paerser reads files with the two decoders; declare has the nearest name.
			{Packages: "./internal/config/...", MayUse: []string{"./api/declare", finding, secret, "./internal/wire", "./internal/wire/permission"}, Foreign: []string{
				"github.com/traefik/paerser/...", "github.com/BurntSushi/toml", "go.yaml.in/yaml/...",
			}},

			// The top.
			{Packages: "./internal/cli/...", MayUse: []string{"./..."}, Foreign: anything},
			{Packages: "./cmd/...", MayUse: []string{"./internal/cli"}, Foreign: nothing},

			// Checks and tests of the whole repository.
			{Packages: "./internal/archtest/...", MayUse: []string{finding}, Foreign: nothing},
			{Packages: "./test/...", MayUse: []string{"./..."}, Foreign: anything},
		}, toolRows()...),
	}
}

// toolRows are the rows of the programs that make runs. Those of make generate
// read source and write pages.
func toolRows() []Row {
	const generator, api = "./internal/tools/generator", "./api/..."
	anything := []string{"..."}
	var nothing []string
	return []Row{
		{Packages: "./internal/tools/...", MayUse: nothing, Foreign: nothing},
		{Packages: "./internal/tools/annotationref", MayUse: []string{generator, "./internal/ingress/...", api}, Foreign: anything}, // the declarations are Go values
		{Packages: "./internal/tools/protogen", MayUse: []string{generator}, Foreign: []string{"github.com/bufbuild/protocompile/...", "google.golang.org/protobuf/..."}},
		{Packages: "./internal/tools/ociimage", MayUse: nothing, Foreign: []string{"github.com/opencontainers/image-spec/...", "oras.land/oras-go/v2/content"}},
		{Packages: "./internal/tools/packages", MayUse: nothing, Foreign: nothing},
		{Packages: "./internal/tools/sbom", MayUse: nothing, Foreign: []string{"github.com/CycloneDX/cyclonedx-go"}},
		{Packages: "./internal/tools/sign", MayUse: nothing, Foreign: []string{"github.com/opencontainers/image-spec/...", "oras.land/oras-go/v2/content", "golang.org/x/crypto/..."}},
		{Packages: "./internal/tools/argocrds", MayUse: []string{generator, api}, Foreign: anything},
		{Packages: "./internal/tools/gatewaycrds", MayUse: []string{generator}, Foreign: nothing},
		{Packages: "./internal/tools/chartgen", MayUse: []string{generator, "./internal/install/values"}, Foreign: nothing},
		{Packages: "./internal/tools/monitoring", MayUse: []string{generator}, Foreign: nothing},
		{Packages: "./internal/tools/routeref", MayUse: []string{generator, "./api/declare"}, Foreign: nothing},
	}
}

// houseBans are the packages that nothing, or one package only, may use:
// what wires the program together, and what only tests need.
func houseBans() []Ban {
	// Packages that only tests import may use what is for tests.
	const fixtures = "./test/... ./internal/programs ./internal/kube/kubetest ./internal/edge/edgetest ./internal/edge/pkitest " +
		"./internal/archives ./internal/edge/bridge/bridgetest ./internal/gitops/gittest ./internal/gitops/argotest ./internal/gitops/plugintest ./internal/cli/clitest"
	return []Ban{
		{Package: "./internal/archives", Reason: "it has the cases of tests and belongs in _test.go files only"},
		{Package: "./internal/must", Except: fixtures, Reason: "it ends tests and belongs in _test.go files only"},
		{Package: "./internal/programs", Except: fixtures, Reason: "it runs the processes of tests and benchmarks only"},
		{Package: "./internal/cli/...", Except: "./cmd/...", Reason: "cli wires the program together; nothing is above it but cmd"},
		{Package: "./internal/cli/clitest", Reason: "it runs commands in tests and belongs in _test.go files only"},
		{Package: "./internal/kube/kubetest", Except: "./internal/cli/clitest ./internal/gitops/argotest ./test/kubelet", Reason: "it starts clusters and belongs in _test.go files only"},
		{Package: "./internal/kube/kubetest/privatenet", Except: "./test/... ./internal/kube/kubetest ./internal/cli/clitest ./internal/gitops/argotest", Reason: "it is the network of tests and benchmarks only"},
		{Package: "./internal/gitops/gittest/...", Except: "./internal/cli/clitest", Reason: "it serves repositories to tests and belongs in _test.go files only"},
		{Package: "./internal/gitops/argotest", Reason: "it runs Applications in tests and belongs in _test.go files only"},
		{Package: "./internal/gitops/plugintest", Reason: "it serves plugins to tests and belongs in _test.go files only"},
		{Package: "./internal/observe/otlp/otlptest", Reason: "it replaces a collector in tests and belongs in _test.go files only"},
		{Package: "./internal/platform/store/pgtest", Reason: "it starts a PostgreSQL and belongs in _test.go files only"},
		{Package: "./internal/platform/identity/oidctest", Reason: "it is an identity provider for tests and belongs in _test.go files only"},
		{Package: "./internal/platform/identity/passkeytest", Reason: "it is a security key for tests and belongs in _test.go files only"},
		{Package: "./internal/gitprovider/providertest", Reason: "it replaces Git providers in tests and belongs in _test.go files only"},
		{Package: "./internal/edge/edgetest", Reason: "it serves tables to tests and belongs in _test.go files only"},
		{Package: "./internal/edge/pkitest", Except: "./test/...", Reason: "it makes keys for tests and benchmarks only"},
		{Package: "./devcluster/...", Reason: "devcluster is a module of its own, and its Kubernetes must not become ours"},
	}
}
