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
	// together is how many checks run at the same time.
	together = 4
)

// Stage is when the checks run.
type Stage string

// The stages. Before asks for what an install needs, After for what it has to give.
const (
	Before Stage = "before"
	After  Stage = "after"
)

// Resolver asks DNS; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Platform is the platform that the runtime is to join.
type Platform struct {
	// URL is its address.
	URL      string
	Auth     platformv1connect.AuthServiceClient
	Runtimes platformv1connect.RuntimeServiceClient
	// Roots may vouch for it; nil are those of the World.
	Roots *x509.CertPool
}

// World is what the checks look at. Only Cluster has to be there, and checks that
// need another part say that they were skipped.
type World struct {
	Cluster *kube.Cluster
	// Dial connects; nil is a net.Dialer. It is given addresses, not names.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Resolver is nil for that of the machine.
	Resolver Resolver
	// Roots may vouch for hosts; nil are the authorities of the machine.
	Roots *x509.CertPool
	// Proxy is for requests that leave the network, to the platform, registries and
	// Git servers; nil: from the environment.
	Proxy func(*http.Request) (*url.URL, error)
	// Platform is nil when none is chosen.
	Platform *Platform
	// GitProvider has the runtime's token; nil when none was given.
	GitProvider gitprovider.Provider
	// Adoption is the write that adopts a CustomResourceDefinition for a release, with a
	// record by which it is given back; nil leaves that to others.
	Adoption func(live *metav1.PartialObjectMetadata, release, namespace string) ([]byte, error)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// TokenSource is how the chart gets the API key (R31).
type TokenSource struct {
	// Inline is set when the key itself is among the values.
	Inline bool
	// SecretName and SecretKey name it in the namespace of the runtime.
	SecretName, SecretKey string
}

// GitAccess is what is known of the Git provider.
type GitAccess struct {
	// Repository is the Shared Configuration Repository,
	// <repo>.git[/<path>][?ref=<branch>].
	Repository string
	// Token and Username are those of the runtime.
	Token    secret.Text
	Username string
	// CAs are PEM certificates of authorities to trust besides the system's.
	CAs []byte
}

// Options say what is to be installed, and how much is looked at.
type Options struct {
	Stage Stage
	// Settings are the runtime's name, namespace, account and access mode.
	Settings mode.Settings
	// Gateway is that of a mesh, as name or namespace/name.
	Gateway string
	// RuntimeVersion is that of the runtime in a mesh; empty is ours.
	RuntimeVersion string
	// Release is the Helm release.
	Release string
	// SingleNamespace is set when the runtime keeps to its namespace.
	SingleNamespace bool
	// HelmVersion is that of the helm that will be used; empty is the library here.
	HelmVersion string
	Token       TokenSource
	Git         GitAccess
	// ControllerNamespace limits where the Ingress controller is looked for, for
	// those who may not list all namespaces.
	ControllerNamespace string
	// Provider is the cloud; empty is what the nodes tell.
	Provider ProviderID
	// Registries are the hosts of container images.
	Registries []string
	// Only and Skip choose checks; empty is all of them.
	Only, Skip []Code
	// StatusWait is how long an Ingress may take to get its address after the
	// install; 0: 20 s.
	StatusWait time.Duration
	// Found is told each result, in the order of the catalogue, as soon as it and
	// those before it are there. It may be nil.
	Found func(Result)
}

// Check looks at one thing.
type Check func(ctx context.Context, in *Inquiry, out *Report)

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
		{URLAnswer, "url-get", checkURLAnswer},
		{RouteResources, "route-resources", checkRouteResources},
		{DNS, "dns", checkDNS},
		{GitCredentials, "git-credentials", checkGitCredentials},
		{GitScopes, "git-scopes", checkGitScopes},
		{GitExpiry, "git-expiry", checkGitExpiry},
		{SharedRepository, "isc-url", checkSharedRepository},
		{GitTLS, "git-tls", checkGitTLS},
		{Egress, "egress", checkEgress},
	}
}

// Run looks at everything that the options choose.
func Run(ctx context.Context, world World, options Options) []Result {
	in := newInquiry(ctx, world, options)
	var chosen []entry
	for _, one := range catalogue() {
		if (len(options.Only) == 0 || slices.Contains(options.Only, one.code)) && !slices.Contains(options.Skip, one.code) {
			chosen = append(chosen, one)
			in.versionRuns = in.versionRuns || one.code == KubernetesVersion
		}
	}
	turns := make(chan struct{}, together)
	ended := make([]chan Result, len(chosen))
	for i, one := range chosen {
		ended[i] = make(chan Result, 1)
		go func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			ended[i] <- in.run(ctx, one)
		}()
	}
	results := make([]Result, 0, len(chosen))
	for _, end := range ended {
		result := <-end
		if options.Found != nil {
			options.Found(result)
		}
		results = append(results, result)
	}
	return results
}

// run is one check within its time.
func (in *Inquiry) run(ctx context.Context, one entry) Result {
	bounded, cancel := context.WithTimeout(ctx, checkTimeout+in.StatusWait)
	defer cancel()
	report := &Report{code: one.code, stage: in.Stage, versionRuns: in.versionRuns}
	one.check(bounded, in, report)
	return report.result()
}
