// Package node is the process node of the development cluster: it registers a
// Node with the API server and runs the Pods that are scheduled to it as local
// processes.
//
// It provides the behaviour of a kubelet that a workload can observe: container
// states, restarts with back-off, probes, graceful deletion, conditions, logs,
// and an address that other Pods can dial. A process never outlives the node,
// however the node ends.
//
// It refuses every field of a manifest that would execute code. Only images
// that its Config resolves run: built-in images by executing the node's own
// binary again, others as a program that the owner of the machine chose. A
// container that sets command, an exec probe or an exec hook does not start,
// and its status carries the reason.
//
// There are no containers here: no isolation and no resource limits. Only with
// Namespaces does a Pod have a network of its own, and its programs the files of
// its volumes.
//
// The package is used by the devcluster command, and by nothing that faces a
// network other than this machine.
//
// See decision 0002 in docs/decisions: pods of the development cluster are
// local processes of built-in images.
package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// componentName identifies the node as the source of Events, as the manager of
// EndpointSlices and as the default user agent of its requests.
const componentName = "process-node.slipway.dev"

// apiTimeout bounds one request, or one short read-then-write sequence, to the
// API server, so that a hanging server never holds a worker for longer. Workers
// retry with backoff after it.
const apiTimeout = 10 * time.Second

// Image is what the node executes for an image: a built-in image is its own
// executable with certain arguments and environment.
type Image struct {
	// Program is the path of a program to execute instead. Its root directory
	// has nothing but itself and the volumes of the container, so it must not
	// need shared libraries.
	Program string
	// Args are the arguments after the executable; the container's own args
	// follow them.
	Args []string
	// Env is the image's environment, as "NAME=value". A container's env
	// overrides it.
	Env []string
}

// Config configures a process node. Every field without a stated default is
// required.
type Config struct {
	// Name of the Node object.
	Name string
	// Address is the node's InternalIP. It must not be loopback: the API server
	// refuses loopback endpoints.
	Address netip.Addr
	// PodCIDR gives each Pod an address of its own, on which it listens on its
	// container ports. All of the prefix must be local on this machine. When it
	// is zero (host mode) Pods share Address, and each container port gets a
	// free port; the node then writes the EndpointSlices itself, because the
	// EndpointSlice controller has no access to these ports.
	PodCIDR netip.Prefix
	// Namespaces gives each Pod a network namespace. PodCIDR must then be an
	// IPv4 network that is not local on this machine: the node creates it, with
	// its first usable address on a bridge. Programs need it.
	Namespaces bool
	// Client reaches the API server.
	Client *rest.Config
	// ServingCert is the certificate of the logs endpoint.
	ServingCert tls.Certificate
	// ClientCA verifies the client certificates of log readers; the API server
	// presents its kubelet client certificate. The TLS handshake refuses every
	// other client.
	ClientCA *x509.CertPool
	// ClientName is the common name that the client certificate must have.
	// Empty lets in every client certificate of ClientCA; set it when that
	// authority signs for others too, as the cluster's own does.
	ClientName string
	// Dir holds the logs, in pods/<uid>/<container>/<restart>.log.
	Dir string
	// Executable is the binary that is executed for built-in images.
	Executable string
	// Images resolves an image reference. Its error becomes the message of a
	// container that waits with the reason ErrImagePull.
	Images func(ref string) (Image, error)
	// Log receives the node's own log lines; nil discards them.
	Log *slog.Logger
}

// validate reports every missing or contradictory field at once, and sets the
// default of Log. Run calls it before it opens any socket or file.
func (c *Config) validate() error {
	var errs []error
	require := func(ok bool, message string) {
		if !ok {
			errs = append(errs, errors.New(message))
		}
	}
	require(c.Name != "", "Name is empty; give the Node a name")
	require(c.Address.IsValid() && !c.Address.IsLoopback() && !c.Address.IsUnspecified(),
		"Address must be an address of this machine that is not loopback")
	require(!c.PodCIDR.IsValid() || c.PodCIDR.Addr().Is4() == c.Address.Is4(),
		"PodCIDR and Address must be of the same family")
	require(!c.Namespaces || c.PodCIDR.Addr().Is4(), "Namespaces needs an IPv4 PodCIDR")
	require(c.Client != nil, "Client is nil; give a way to reach the API server")
	require(len(c.ServingCert.Certificate) > 0, "ServingCert is empty; the logs endpoint is served over TLS only")
	require(c.ClientCA != nil, "ClientCA is nil; without it every client would be refused")
	require(filepath.IsAbs(c.Dir), "Dir must be an absolute path")
	require(c.Executable != "", "Executable is empty; built-in images run by executing it")
	require(c.Images != nil, "Images is nil; no image could be resolved")
	if len(errs) > 0 {
		return fmt.Errorf("process node: %w", errors.Join(errs...))
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// hostMode reports whether Pods share the node's address.
func (c *Config) hostMode() bool { return !c.PodCIDR.IsValid() }

// shared holds the dependencies that all Pod workers of a node use. Run fills
// it before the first worker starts; from then on it is read only.
type shared struct {
	cfg       Config
	client    kubernetes.Interface
	events    record.EventRecorder
	addresses *addressPool // nil in host mode
	network   *podNetwork  // nil without Namespaces
	capacity  corev1.ResourceList
	// changed is called each time the endpoints of a Pod may have changed, so
	// that the EndpointSlices of its namespace are reconciled. It does nothing
	// outside host mode.
	changed func(namespace string)
}

// Run registers the node and runs its Pods until ctx is done and every process
// has ended. It calls ready once the Node is registered and workers have
// started for the Pods that already existed. Run retries while the API server
// is unavailable; only an invalid Config, or a logs endpoint that cannot be
// served, is an error.
func Run(ctx context.Context, cfg Config, ready func()) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(clientConfig(cfg.Client))
	if err != nil {
		return fmt.Errorf("process node: client of the API server: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(cfg.Dir, "pods"), 0o700); err != nil {
		return fmt.Errorf("process node: make the directory for logs: %w", err)
	}
	// The network is first: it has the address that the logs endpoint listens
	// on. It is removed last, when all Pods have ended.
	var bridged *podNetwork
	if cfg.Namespaces {
		if bridged, err = newPodNetwork(cfg.PodCIDR); err != nil {
			return fmt.Errorf("process node: %w", err)
		}
		defer bridged.close()
	}
	// The kernel chooses the port, and the Node's status publishes it as the
	// kubelet endpoint: the API server reads the port from there.
	listener, err := net.Listen("tcp", netip.AddrPortFrom(cfg.Address, 0).String())
	if err != nil {
		return fmt.Errorf("process node: listen for log requests on %s, which must be an address of this machine: %w", cfg.Address, err)
	}

	// Deferred calls run in reverse: cancel ends the goroutines, then Wait
	// returns when they have.
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	capacity := machineCapacity(cfg.Dir)
	host := &shared{cfg: cfg, client: client, capacity: capacity, network: bridged, changed: func(string) {}}
	if !cfg.hostMode() {
		host.addresses = newAddressPool(cfg.PodCIDR)
	}
	pods := newPodSet(host)
	running.Go(func() {
		if err := serveLogs(ctx, listener, cfg, pods); err != nil {
			cancel(fmt.Errorf("process node: serve logs: %w", err))
		}
	})

	port := listener.Addr().(*net.TCPAddr).Port
	reg := &registration{cfg: cfg, client: client, capacity: capacity, port: int32(port)}
	if reg.register(ctx) {
		running.Go(func() { reg.keepAlive(ctx) })
		runPods(ctx, host, pods, ready)
	}
	// The only cause other than the caller's own is a failure of the logs
	// endpoint. A stop that the caller requested is not an error.
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// runPods watches the Pods of this node until ctx is done and their processes
// have ended.
func runPods(ctx context.Context, host *shared, pods *podSet, ready func()) {
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: host.client.CoreV1().Events("")})
	host.events = events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: componentName, Host: host.cfg.Name})

	// The field selector is evaluated by the API server, so Pods of other nodes
	// never reach this process. No resync: workers retry on their own.
	ours := informers.NewSharedInformerFactoryWithOptions(host.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", host.cfg.Name).String()
		}))
	informer := ours.Core().V1().Pods().Informer()
	registered, err := informer.AddEventHandler(pods)
	if err != nil {
		// AddEventHandler fails only for a stopped informer, and this one has
		// not been started.
		panic(err)
	}
	var slices *sliceWriter
	if host.cfg.hostMode() {
		// changed is set before the informer starts: workers read it without a
		// lock.
		slices = newSliceWriter(host, pods)
		host.changed = slices.podsChanged
		defer slices.queue.ShutDown()
	}

	ours.StartWithContext(ctx)
	// The informer shuts down first: after that no event can add a worker to
	// the set that is waited for.
	defer pods.wait()
	defer ours.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), registered.HasSynced) {
		return
	}
	pods.begin(ctx)
	if slices == nil {
		ready()
		<-ctx.Done()
		return
	}
	// The slice writer starts last: before begin, every Pod would appear to
	// have no ports, and its slice would be deleted.
	slices.run(ctx, ready)
}

// clientConfig raises the client-side rate limit: a rollout touches many Pods
// in one second, and client-go's default of five requests a second would delay
// their status. Limits and a user agent that the caller has set are kept.
func clientConfig(in *rest.Config) *rest.Config {
	out := rest.CopyConfig(in)
	if out.QPS == 0 {
		out.QPS, out.Burst = 100, 200
	}
	out.UserAgent = cmp.Or(out.UserAgent, componentName)
	return out
}
