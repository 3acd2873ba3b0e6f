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

// client-go's own 5 requests per second with bursts of 10 make a first sync
// or a larger apply crawl. The API server protects itself by priority and
// fairness; this limit only stops a loop that has gone wild.
const (
	requestsPerSecond = 50
	requestBurst      = 100
)

// Cluster is a connection to one Kubernetes API server. It is safe for
// concurrent use.
type Cluster struct {
	// Config is how the clients below connect. Copy it before changing it.
	Config *rest.Config
	// Client has a typed method for each built-in kind.
	Client kubernetes.Interface
	// Dynamic handles any kind.
	Dynamic dynamic.Interface
	// Metadata handles any kind and reads no more than its metadata.
	Metadata metadata.Interface
	// Namespace is where the program itself is at home: the namespace of its
	// Pod, or that of the kubeconfig's context, or default.
	Namespace string

	mapper    *restmapper.DeferredDiscoveryRESTMapper
	transport http.RoundTripper
}

// Option changes how Connect connects.
type Option func(*rest.Config)

// Version puts the program's version into the user agent, slipway/<version>,
// which is what an administrator sees in the audit log.
func Version(version string) Option {
	return func(config *rest.Config) { config.UserAgent = userAgent(version) }
}

// Rate limits requests to so many in a second, with bursts. Watches count once,
// when they start.
func Rate(perSecond float32, burst int) Option {
	return func(config *rest.Config) { config.QPS, config.Burst = perSecond, burst }
}

// Connect makes the clients for the current context of a kubeconfig file. It
// reads the file but sends nothing: a server that is down shows in the first
// request.
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

// Close drops idle connections. Requests that are under way go on, and a
// later request connects again.
func (c *Cluster) Close() {
	utilnet.CloseIdleConnectionsFor(c.transport)
}

func newCluster(config *rest.Config, options []Option) (*Cluster, error) {
	config.QPS = requestsPerSecond
	config.Burst = requestBurst
	config.UserAgent = userAgent("devel")
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

func userAgent(version string) string {
	return "slipway/" + version
}
