package preflight

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

const (
	// checkTimeout bounds a check, and dialTimeout one connection of it.
	checkTimeout = 30 * time.Second
	dialTimeout  = 5 * time.Second
	// concurrency is the number of concurrent checks: enough to hide latency
	// without flooding the API server.
	concurrency = 4
)

// Stage is when the checks run.
type Stage string

// Stages. Before checks the prerequisites of an installation, After its
// result.
const (
	Before Stage = "before"
	After  Stage = "after"
)

// Resolver resolves DNS names; *net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Platform is the platform that the runtime joins.
type Platform struct {
	// URL is the platform's base URL.
	URL      string
	Auth     platformv1connect.AuthServiceClient
	Runtimes platformv1connect.RuntimeServiceClient
	// Roots verify its certificate; nil means those of the World.
	Roots *x509.CertPool
}

// World is the environment of the checks. Only Cluster is required; checks
// that need another part are skipped with a reason.
type World struct {
	Cluster *kube.Cluster
	// Dial opens connections; nil means a net.Dialer. It receives IP
	// addresses, not names.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Resolver is nil for the system's resolver.
	Resolver Resolver
	// Roots verify certificates of hosts other than Git servers; nil means the
	// system's CAs.
	Roots *x509.CertPool
	// Proxy is used for requests that leave the network: to the platform,
	// registries and Git servers. Nil means the environment.
	Proxy func(*http.Request) (*url.URL, error)
	// Platform is nil when none is configured.
	Platform *Platform
	// GitProvider has the runtime's token; nil when none is configured.
	GitProvider gitprovider.Provider
	// Adoption returns the patch that adopts a CustomResourceDefinition for a
	// release, with a record to revert it; nil disables the fix.
	Adoption func(live *metav1.PartialObjectMetadata, release, namespace string) ([]byte, error)
	// ChangeRelease upgrades the release with changed values, or applies it
	// again if they are nil; without it objects of the release are not
	// repaired. Other writes would be conflicts in its next upgrade.
	ChangeRelease func(ctx context.Context, changes map[string]any) error
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// TokenSource is how the chart gets the API key (R31).
type TokenSource struct {
	// Inline is set when the key itself is in the values.
	Inline bool
	// SecretName and SecretKey name it in the namespace of the runtime.
	SecretName, SecretKey string
}

// GitAccess is the configuration of the Git provider.
type GitAccess struct {
	// Repository is the Shared Configuration Repository,
	// <repo>.git[/<path>][?ref=<branch>].
	Repository string
	// Token and Username are the runtime's credentials.
	Token    secret.Text
	Username string
	// CAs are PEM certificates that verify the Git server instead of the
	// system's, as the runtime does.
	CAs []byte
}

// Options describe the installation and select checks.
type Options struct {
	Stage Stage
	// Settings are the runtime's name, namespace, account and access mode.
	Settings mode.Settings
	// ByFlags is set if the settings come from flags, which findings then
	// name instead of values.
	ByFlags bool
	// Gateway is the gateway of a mesh, as name or namespace/name.
	Gateway string
	// RuntimeVersion is the version of the runtime in a mesh; empty means
	// this program's.
	RuntimeVersion string
	// Release is the Helm release.
	Release string
	// KeepCRDs is set if the CRDs of Argo CD are no part of the release.
	KeepCRDs bool
	// Objects are what the chart installs; without them the checks of
	// permissions and owners are skipped.
	Objects []Object
	// HelmVersion is the version of the helm command; empty means the
	// embedded library.
	HelmVersion string
	Token       TokenSource
	Git         GitAccess
	// ControllerNamespace restricts the search for the Ingress controller,
	// for users who cannot list all namespaces.
	ControllerNamespace string
	// Provider is the cloud; empty means detection by the nodes.
	Provider ProviderID
	// Registries are the hosts of container images.
	Registries []string
	// Only and Skip select checks; empty means all.
	Only, Skip []Code
	// StatusWait is how long an Ingress may take to get its address after the
	// installation; 0 means 20 s.
	StatusWait time.Duration
	// Found is called with each result in the order of the catalogue, as soon
	// as it and all before it are complete. It may be nil.
	Found func(Result)
}

// Check looks at one thing.
type Check func(ctx context.Context, in *CheckContext, out *Report)

// entry is a check in the catalogue.
type entry struct {
	code  Code
	name  string
	check Check
}

// catalogue is every check, in order.
func catalogue() []entry {
	return []entry{
		{KubernetesVersion, "k8s-version", checkKubernetesVersion},
		{HelmVersion, "helm-version", checkHelmVersion},
		{NodeSize, "node-size", checkNodeSize},
		{Rights, "rbac", checkRights},
		{ArgoCollision, "argo-collision", checkArgoCollision},
		{SealedSecrets, "sealed-secrets", checkSealedSecrets},
		{CRDOwnership, "crd-ownership", checkCRDOwnership},
		{RuntimeName, "runtime-name", checkRuntimeName},
		{NamespaceName, "namespace", checkNamespace},
		{TokenOrigin, "token-source", checkTokenSource},
		{AccountAdmin, "account-admin", checkAccountAdmin},
		{AccountMatch, "account-match", checkAccountMatch},
		{AccessMode, "access-mode", checkAccessMode},
		{IngressClass, "ingress-class", checkIngressClass},
		{ExternalAddress, "external-address", checkExternalAddress},
		{TLSCertificate, "tls-cert", checkTLSCertificate},
		{TCP, "tcp", checkTCP},
		{StatusReport, "status-report", checkStatusReport},
		{URLResponse, "url-get", checkURLResponse},
		{RouteResources, "route-resources", checkRouteResources},
		{DNS, "dns", checkDNS},
		{GitCredentials, "git-credentials", checkGitCredentials},
		{GitScopes, "git-scopes", checkGitScopes},
		{GitExpiry, "git-expiry", checkGitExpiry},
		{SharedRepository, "isc-url", checkSharedRepository},
		{GitTLS, "git-tls", checkGitTLS},
		{Egress, "egress", checkEgress},
		{GatewayAPI, "gateway-api", checkGatewayAPI},
	}
}

// Run runs the selected checks concurrently and returns their results in the
// order of the catalogue.
func Run(ctx context.Context, world World, options Options) []Result {
	in := newCheckContext(ctx, world, options)
	// The catalogue's order is kept, regardless of the order of the flags.
	var chosen []entry
	for _, one := range catalogue() {
		if (len(options.Only) == 0 || slices.Contains(options.Only, one.code)) && !slices.Contains(options.Skip, one.code) {
			chosen = append(chosen, one)
			in.versionRuns = in.versionRuns || one.code == KubernetesVersion
		}
	}
	slots := make(chan struct{}, concurrency)
	ended := make([]chan Result, len(chosen))
	// Each check has a channel of capacity one: a check that ends early never
	// waits for the results before it.
	for i, one := range chosen {
		ended[i] = make(chan Result, 1)
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ended[i] <- in.run(ctx, one)
		}()
	}
	results := make([]Result, 0, len(chosen))
	// Results are reported in order, so that output is the same in every run.
	for _, end := range ended {
		result := <-end
		if options.Found != nil {
			options.Found(result)
		}
		results = append(results, result)
	}
	return results
}

// run runs one check within its timeout.
func (in *CheckContext) run(ctx context.Context, one entry) Result {
	// The wait for the Ingress status is configured and comes on top.
	bounded, cancel := context.WithTimeout(ctx, checkTimeout+in.StatusWait)
	defer cancel()
	// Each check has its own report, so checks share nothing but the context.
	report := &Report{code: one.code, stage: in.Stage, versionRuns: in.versionRuns}
	one.check(bounded, in, report)
	return report.result()
}
