// Package controlplane runs etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler in this process.
//
// It provides a real Kubernetes: RBAC is on, every connection between the parts
// but the private socket of etcd is TLS with certificates of the cluster's own
// authorities, and an acknowledged write is on disk. It keeps all of its state
// in one directory and serves on the listener of the caller, which is on
// loopback unless a kubelet runs beside it. A process can run only one cluster,
// because the Kubernetes components keep global registries.
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
	// stopTimeout bounds the graceful stop of one part; etcd is durable, so
	// nothing is lost after it.
	stopTimeout = 10 * time.Second
	// serviceCIDR is the range of cluster IPs. The Service IP of the API server
	// must be in its certificate, so the range is fixed.
	serviceCIDR = "10.96.0.0/16"
	// firstServiceIP is the address of the `kubernetes` Service: the first of
	// serviceCIDR.
	firstServiceIP = "10.96.0.1"
)

// Config configures a cluster. Every field but the flags is required.
type Config struct {
	// Dir holds all state; no other process may use it.
	Dir string
	// Listener accepts connections to the API server, which closes it at its
	// end. It is on loopback, unless Pods with addresses of their own have to
	// reach it.
	Listener net.Listener
	// NodeAddress is advertised as the API server's address and must not be
	// loopback: Kubernetes refuses loopback endpoints.
	NodeAddress netip.Addr
	// SlicesByNode turns the EndpointSlice controller off: the node writes the
	// slices, because only it has the real ports of its Pods.
	SlicesByNode bool
	// Endpoints runs the controller of the deprecated Endpoints beside
	// EndpointSlices, for containers that still read them. It costs one more
	// write for each change of a Service or a Pod.
	Endpoints bool
	// Unsynced does not wait until the disk has what etcd writes. The state then
	// outlives the process, and may not outlive the machine.
	Unsynced bool
	// Progress is called with each step of the start, for the log.
	Progress func(string)
}

// Cluster is a running control plane.
type Cluster struct {
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// Credentials are the certificates of this cluster.
	Credentials *Credentials

	// parts are the running components in the order of their start.
	parts []*part
	// dead receives the error of a part that ended on its own; it has room for
	// one error of each part, so no part blocks.
	dead chan error
}

// part is one component; done is closed when it has ended.
type part struct {
	name string
	stop context.CancelFunc
	done chan struct{}
}

// Start starts the parts in order and returns when the API server is ready and
// the controllers have created the default service account: from then on Pods
// can be created. On an error, and when ctx ends first, it stops the parts that
// run. The end of ctx does not stop a cluster that has started; Stop does.
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

// start starts etcd, the API server and then its clients. The order follows the
// dependencies: the API server exits without etcd, and the controllers would
// log errors without an API server.
func (c *Cluster) start(ctx context.Context, cfg Config) error {
	cfg.Progress("starting etcd")
	etcdURL, err := c.startEtcd(ctx, filepath.Join(cfg.Dir, "etcd"), cfg.Unsynced)
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

// AdminClient returns the client configuration of a member of system:masters,
// which RBAC does not restrict.
func (c *Cluster) AdminClient() (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
}

// Dead delivers the error of a part that has ended on its own. Parts do not
// restart: the caller stops the cluster.
func (c *Cluster) Dead() <-chan error { return c.dead }

// Stop ends the parts, last started first, so that none loses the part that it
// depends on. A part that exceeds stopTimeout is left to the end of the
// process. Stop may be called more than once.
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

// run starts a part whose function returns when its context ends. The context
// is not derived from the caller's: Stop ends the parts one by one. A return
// before that, even without an error, is a failure of the cluster.
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
		default: // one error is enough to stop the cluster
		}
	}()
}

// processOnce guards the global settings of the Kubernetes libraries.
var processOnce sync.Once
