package kube

import (
	"errors"
	"fmt"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
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

// Connect makes the clients for the current context of a kubeconfig file. It
// reads the file but sends nothing: a server that is down shows in the first
// request.
func Connect(kubeconfig string, options ...Option) (*Cluster, error) {
	if kubeconfig == "" {
		return nil, errors.New("no kubeconfig given: name the file to use")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS = requestsPerSecond
	config.Burst = requestBurst
	config.UserAgent = userAgent("devel")
	for _, option := range options {
		option(config)
	}
	cluster, err := newCluster(config)
	if err != nil {
		return nil, fmt.Errorf("make clients for kubeconfig %s: %w", kubeconfig, err)
	}
	return cluster, nil
}

// Close drops idle connections. Requests that are under way go on, and a
// later request connects again.
func (c *Cluster) Close() {
	utilnet.CloseIdleConnectionsFor(c.transport)
}

func newCluster(config *rest.Config) (*Cluster, error) {
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
	return &Cluster{
		Config:    config,
		Client:    typed,
		Dynamic:   dynamicClient,
		mapper:    restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(typed.Discovery())),
		transport: httpClient.Transport,
	}, nil
}

func userAgent(version string) string {
	return "slipway/" + version
}
