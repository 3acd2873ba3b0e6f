// Package controlplane runs etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler in this process.
//
// It promises a real Kubernetes: RBAC is on, every connection between the
// parts is TLS with certificates of the cluster's own authorities, and an
// acknowledged write is on disk. It keeps all of its state in one directory
// and listens where it is told, on loopback unless a kubelet runs beside. It refuses to run more than one cluster in a
// process, because the Kubernetes components keep global registries.
//
// See decision 0022 in docs/decisions: the development cluster leaves the
// processors to the API server.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

const (
	// stopTimeout bounds the graceful stop of one part; etcd is durable, so nothing is lost after it.
	stopTimeout = 10 * time.Second
	serviceCIDR = "10.96.0.0/16"
	// firstServiceIP is the address of the `kubernetes` Service: the first of serviceCIDR.
	firstServiceIP = "10.96.0.1"
)

// Config says where a cluster lives.
type Config struct {
	// Dir holds all state; it is private to this process.
	Dir string
	// Listener accepts connections to the API server; on loopback, unless Pods with addresses of their own have to reach it.
	Listener net.Listener
	// NodeAddress is announced as the API server's address and must not be loopback.
	NodeAddress netip.Addr
	// SlicesByNode leaves EndpointSlices to the node, which knows the real ports of its Pods.
	SlicesByNode bool
	// Endpoints writes the deprecated Endpoints beside EndpointSlices, for containers that still read them. It costs a write
	// more for each change of a Service or a Pod.
	Endpoints bool
	// Progress is told what is waited for.
	Progress func(string)
}

// Cluster is a running control plane.
type Cluster struct {
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// Credentials are the certificates of this cluster.
	Credentials *Credentials

	parts []*part
	dead  chan error
}

// part is one component; done is closed when it has ended.
type part struct {
	name string
	stop context.CancelFunc
	done chan struct{}
}

// Start brings the parts up in order and returns when the API server is ready
// and the controllers have made the default service account.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	credentials, err := issueCredentials(filepath.Join(cfg.Dir, "pki"), cfg.NodeAddress)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	c := &Cluster{Credentials: credentials, dead: make(chan error, 4)}
	if err := c.start(ctx, cfg); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, cfg Config) error {
	cfg.Progress("starting etcd")
	etcdURL, err := c.startEtcd(ctx, filepath.Join(cfg.Dir, "etcd"))
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	c.Kubeconfig = filepath.Join(cfg.Dir, "kubeconfig")
	server := "https://" + cfg.Listener.Addr().String()
	identities, err := c.writeKubeconfigs(server)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	cfg.Progress("starting kube-apiserver")
	if err := c.startAPIServer(cfg, etcdURL); err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	cfg.Progress("waiting for the API server")
	admin, err := c.AdminClient()
	if err != nil {
		return err
	}
	if err := c.await(ctx, admin, apiServerReady); err != nil {
		return fmt.Errorf("kube-apiserver did not become ready: %w", err)
	}
	cfg.Progress("starting kube-controller-manager and kube-scheduler")
	if err := c.startControllerManager(cfg, identities.controllerManager); err != nil {
		return fmt.Errorf("kube-controller-manager: %w", err)
	}
	if err := c.startScheduler(identities.scheduler); err != nil {
		return fmt.Errorf("kube-scheduler: %w", err)
	}
	cfg.Progress("waiting for the controllers")
	if err := c.await(ctx, admin, defaultServiceAccount); err != nil {
		return fmt.Errorf("kube-controller-manager did not make the default service account: %w", err)
	}
	return nil
}

// AdminClient gives the configuration of a client that may do everything.
func (c *Cluster) AdminClient() (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
}

// Dead delivers the reason when a part has ended by itself.
func (c *Cluster) Dead() <-chan error { return c.dead }

// Stop ends the parts, last started first. What has not ended in time is left
// to the end of the process.
func (c *Cluster) Stop() {
	for i := len(c.parts) - 1; i >= 0; i-- {
		p := c.parts[i]
		p.stop()
		select {
		case <-p.done:
		case <-time.After(stopTimeout):
			klog.Warningf("%s did not stop within %s", p.name, stopTimeout)
		}
	}
	c.parts = nil
	klog.Flush()
}

// run starts a part whose function returns when its context ends.
func (c *Cluster) run(name string, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{name: name, stop: cancel, done: make(chan struct{})}
	c.parts = append(c.parts, p)
	go func() {
		defer close(p.done)
		err := f(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("ended without an error")
		}
		select {
		case c.dead <- fmt.Errorf("%s: %w", name, err):
		default: // one reason is enough to stop everything
		}
	}()
}

// processOnce guards the global settings of the Kubernetes libraries.
var processOnce sync.Once
