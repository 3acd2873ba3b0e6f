package kube

import (
	"errors"
	"fmt"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// The defaults of client-go, 5 requests per second with bursts of 10, make a first
// sync or a larger apply slow. The API server protects itself by priority and
// fairness; this limit only stops a runaway loop.
const (
	requestsPerSecond = 50
	requestBurst      = 100
)

// Cluster is a connection to one Kubernetes API server. It is safe for
// concurrent use.
type Cluster struct {
	// Config is the configuration of the clients below. Copy it before a change.
	Config *rest.Config
	// Client has a typed method for each built-in kind.
	Client kubernetes.Interface
	// Dynamic handles any kind.
	Dynamic dynamic.Interface
	// Metadata handles any kind and reads its metadata only.
	Metadata metadata.Interface
	// Namespace is that of the program itself: of its Pod, or of the kubeconfig's
	// context, or default.
	Namespace string

	mapper    *restmapper.DeferredDiscoveryRESTMapper
	transport http.RoundTripper
}

// Option changes the configuration of the clients.
type Option func(*rest.Config)

// Version sets the user agent to slipway/<version>, which an administrator sees in
// the audit log.
func Version(version string) Option {
	return func(config *rest.Config) { config.UserAgent = userAgent(version) }
}

// Rate sets the limit of requests per second, with bursts. A watch counts once,
// when it starts.
func Rate(perSecond float32, burst int) Option {
	return func(config *rest.Config) { config.QPS, config.Burst = perSecond, burst }
}

// Connect returns the clients for the current context of a kubeconfig file. It
// reads the file but sends nothing: a server that is down fails the first request.
func Connect(kubeconfig string, options ...Option) (*Cluster, error) {
	if kubeconfig == "" {
		return nil, errors.New("no kubeconfig given: name the file to use")
	}
	config, namespace, err := readKubeconfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	cluster, err := newCluster(config, options)
	if err != nil {
		return nil, fmt.Errorf("make clients for kubeconfig %s: %w", kubeconfig, err)
	}
	cluster.Namespace = namespace
	return cluster, nil
}

// Close closes idle connections. Requests in flight continue, and a later request
// connects again.
func (c *Cluster) Close() {
	utilnet.CloseIdleConnectionsFor(c.transport)
}

// newCluster creates the clients of a configuration, which it changes. Options
// come after the defaults and override them.
func newCluster(config *rest.Config, options []Option) (*Cluster, error) {
	config.QPS = requestsPerSecond
	config.Burst = requestBurst
	config.UserAgent = userAgent("devel")
	config.Wrap(fenced)
	for _, option := range options {
		option(config)
	}
	// One HTTP client for all, so that they share connections.
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	typed, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	return &Cluster{
		Config:    config,
		Client:    typed,
		Dynamic:   dynamicClient,
		Metadata:  metadataClient,
		mapper:    restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(typed.Discovery())),
		transport: httpClient.Transport,
	}, nil
}

// userAgent returns the user agent of a version.
func userAgent(version string) string {
	return "slipway/" + version
}
