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

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	defaultStatusWait = 20 * time.Second
	// mostListed bounds lists of a cluster: nobody reads more findings.
	mostListed = 2000
)

// Inquiry is one run: the world, the options, and what more than one check asks
// for, which is asked once.
type Inquiry struct {
	World
	Options
	// Mode is how the runtime is reached; Unresolved when P13 fails.
	Mode  mode.Mode
	modes []mode.Finding
	// versionRuns is set when P1 is among the checks.
	versionRuns bool

	controller func() (*controllerView, error)
	nodes      func() ([]corev1.Node, error)
	me         func() (*platformv1.MeResponse, error)
	token      func() (gitprovider.TokenReport, error)
}

func newInquiry(ctx context.Context, world World, options Options) *Inquiry {
	in := &Inquiry{World: world, Options: options}
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
	in.Mode, in.modes = mode.Resolve(in.Settings)
	in.controller = sync.OnceValues(func() (*controllerView, error) { return bounded(ctx, in.viewController) })
	in.nodes = sync.OnceValues(func() ([]corev1.Node, error) { return bounded(ctx, in.listNodes) })
	in.me = sync.OnceValues(func() (*platformv1.MeResponse, error) { return bounded(ctx, in.askMe) })
	in.token = sync.OnceValues(func() (gitprovider.TokenReport, error) { return bounded(ctx, in.askToken) })
	return in
}

// bounded asks something within the time of a check.
func bounded[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return ask(limited)
}

func (in *Inquiry) listNodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := in.Cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: mostListed})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (in *Inquiry) askToken(ctx context.Context) (gitprovider.TokenReport, error) {
	return in.GitProvider.Check(ctx, gitprovider.RuntimeToken)
}

// asked is the mode by what the settings ask for, also when they are wrong
// elsewhere: a bad name must not hide a bad certificate.
func (in *Inquiry) asked() mode.Mode {
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

// address is where the runtime is to be reached from outside; nil in a tunnel.
func (in *Inquiry) address() *url.URL {
	if in.asked() == mode.Tunnel {
		return nil
	}
	parsed, err := url.Parse(mode.URL(in.Settings, in.asked()))
	if err != nil || parsed.Hostname() == "" {
		return nil
	}
	return parsed
}

// outside skips a check that is for runtimes which are reached from outside, and
// gives their address.
func (in *Inquiry) outside(out *Report) *url.URL {
	if in.asked() == mode.Tunnel {
		out.skip("the runtime is reached through its tunnel")
		return nil
	}
	address := in.address()
	if address == nil {
		out.skip("no host of the runtime is given")
	}
	return address
}

// unseen tells that the cluster did not let us look. That the API server is away is
// told once, by P1 if it runs.
func (r *Report) unseen(what string, err error) {
	var status apierrors.APIStatus
	answered := errors.As(err, &status)
	switch {
	case apierrors.IsForbidden(err):
		r.warn(what, "it cannot be checked: "+err.Error(), "run it as somebody who may read "+what+", or ask an administrator to")
	case !answered && r.versionRuns && r.code != KubernetesVersion:
		r.skip("the API server does not answer: see %s", KubernetesVersion)
	default:
		r.fail(what, "it cannot be read: "+err.Error(), "see whether the API server answers: kubectl get --raw /readyz")
	}
}

// named is an object in a sentence.
func named(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return fmt.Sprintf("%s %s/%s", kind, namespace, name)
}
