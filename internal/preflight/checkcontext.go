package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	defaultStatusWait = 20 * time.Second
	// maxListed bounds lists of the cluster: more objects would not make the
	// findings more useful.
	maxListed = 2000
)

// CheckContext is the state of one run: World, Options, and values that
// several checks need, each fetched once.
type CheckContext struct {
	World
	Options
	// Mode is the access mode; Unresolved when P13 fails.
	Mode  mode.Mode
	modes []finding.Finding
	// versionRuns is set when P1 is among the checks.
	versionRuns bool

	// Lazy values, each computed by the first check that needs it.
	controller func() (*controllerView, error)
	nodes      func() ([]corev1.Node, error)
	me         func() (*platformv1.MeResponse, error)
	token      func() (gitprovider.TokenReport, error)
}

// newCheckContext applies the defaults and resolves the access mode.
func newCheckContext(ctx context.Context, world World, options Options) *CheckContext {
	in := &CheckContext{World: world, Options: options}
	in.Stage = cmp.Or(in.Stage, Before)
	in.StatusWait = cmp.Or(in.StatusWait, defaultStatusWait)
	if in.Dial == nil {
		in.Dial = (&net.Dialer{}).DialContext
	}
	if in.Resolver == nil {
		in.Resolver = net.DefaultResolver
	}
	if in.Proxy == nil {
		in.Proxy = func(request *http.Request) (*url.URL, error) { return http.ProxyFromEnvironment(request) }
	}
	if in.Now == nil {
		in.Now = time.Now
	}
	// Resolved once: P13 reports the findings, the other checks only need the
	// mode.
	in.Mode, in.modes = mode.Resolve(in.Settings)
	// Several checks use the same lists; fetching them once keeps the load on
	// the API server low.
	in.controller = sync.OnceValues(func() (*controllerView, error) { return bounded(ctx, in.viewController) })
	in.nodes = sync.OnceValues(func() ([]corev1.Node, error) { return bounded(ctx, in.listNodes) })
	in.me = sync.OnceValues(func() (*platformv1.MeResponse, error) { return bounded(ctx, in.fetchMe) })
	in.token = sync.OnceValues(func() (gitprovider.TokenReport, error) { return bounded(ctx, in.fetchToken) })
	return in
}

// bounded calls a function with the timeout of a check. The context is the
// run's, not that of the first check: a check that is cancelled must not fail
// the others.
func bounded[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return request(limited)
}

// listNodes lists the nodes, for P3, P15 and the detection of the provider.
func (in *CheckContext) listNodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := in.Cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: maxListed})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// fetchToken checks the runtime's token with its provider, for P22 to P24.
func (in *CheckContext) fetchToken(ctx context.Context) (gitprovider.TokenReport, error) {
	return in.GitProvider.Check(ctx, gitprovider.RuntimeToken)
}

// requestedMode returns the mode that the settings select, even if they are
// invalid elsewhere: a bad name must not hide a bad certificate.
func (in *CheckContext) requestedMode() mode.Mode {
	switch {
	case in.Mode != mode.Unresolved:
		return in.Mode
	case in.Settings.Ingress.Enabled:
		return mode.Ingress
	case in.Settings.HTTPRoute.Enabled:
		return mode.HTTPRoute
	case in.Settings.IngressURL != "":
		return mode.Mesh
	}
	return mode.Tunnel
}

// address returns the external URL of the runtime; nil for a tunnel.
func (in *CheckContext) address() *url.URL {
	if in.requestedMode() == mode.Tunnel {
		return nil
	}
	parsed, err := url.Parse(mode.URL(in.Settings, in.requestedMode()))
	if err != nil || parsed.Hostname() == "" {
		return nil
	}
	return parsed
}

// externalURL returns the external URL, or skips a check that needs one.
func (in *CheckContext) externalURL(out *Report) *url.URL {
	if in.requestedMode() == mode.Tunnel {
		out.skip("the runtime is reached through its tunnel")
		return nil
	}
	address := in.address()
	if address == nil {
		out.skip("no host of the runtime is given")
	}
	return address
}

// readError reports that the cluster could not be read. An unreachable API
// server is reported once, by P1 if it runs.
func (r *Report) readError(what string, err error) {
	// An API status means that the server responded; other errors are network
	// failures.
	var status apierrors.APIStatus
	responded := errors.As(err, &status)
	switch {
	case apierrors.IsForbidden(err):
		r.warn(what, "it cannot be checked: "+err.Error(), "run it as a user who can read "+what+", or contact an administrator")
	case !responded && r.versionRuns && r.code != KubernetesVersion:
		r.skip("the API server does not respond: see %s", KubernetesVersion)
	default:
		r.fail(what, "it cannot be read: "+err.Error(), "check that the API server responds: kubectl get --raw /readyz")
	}
}

// named returns an object for a message: kind and namespace/name.
func named(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return fmt.Sprintf("%s %s/%s", kind, namespace, name)
}
