package kubetest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/kube"
)

// Cluster is a running development cluster: a real API server with its
// controllers, and a node unless WithoutNode was given. The embedded
// connection stays valid across Restart.
type Cluster struct {
	*kube.Cluster

	// Dir holds all state of the cluster.
	Dir string
	// Kubeconfig is the file that the cluster wrote for its administrator.
	Kubeconfig string
	// PodNetwork is where its Pods get their addresses. It is not valid with
	// HostNetwork.
	PodNetwork netip.Prefix

	binary   string
	settings startSettings
	isShared bool
	daemon   *daemon
}

// StartOption changes the cluster that Start starts.
type StartOption func(*startSettings)

type startSettings struct {
	withoutNode bool
	hostNetwork bool
	dir         string
}

// WithoutNode leaves out the node: Pods stay pending. It starts faster and is
// enough for a test that only reads and writes objects.
func WithoutNode() StartOption {
	return func(settings *startSettings) { settings.withoutNode = true }
}

// HostNetwork gives Pods the address of the host and a free port each,
// instead of an address of their own.
func HostNetwork() StartOption {
	return func(settings *startSettings) { settings.hostNetwork = true }
}

// InDir keeps the state in a directory of the caller, who also removes it.
func InDir(dir string) StartOption {
	return func(settings *startSettings) { settings.dir = dir }
}

// Start starts a cluster for this test alone and waits until it is ready. It
// is stopped at the end of the test. When the test fails, the end of the
// cluster's log is shown with it.
func Start(t testing.TB, options ...StartOption) *Cluster {
	t.Helper()
	requireNetwork(t)
	cluster, err := newCluster(options)
	if err != nil {
		t.Fatalf("prepare a cluster: %v", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cluster.stop(), cluster.remove()); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	})
	cluster.showLogOnFailure(t)
	if err := cluster.start(); err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	return cluster
}

// PID is the process id of the cluster.
func (c *Cluster) PID() int { return c.daemon.cmd.Process.Pid }

// Exited is closed when the process of the cluster has ended.
func (c *Cluster) Exited() <-chan struct{} { return c.daemon.exited }

// Stop stops the cluster cleanly by closing its standard input.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	c.requireOwn(t)
	if err := c.stop(); err != nil {
		t.Fatalf("stop the cluster: %v", err)
	}
}

// Kill ends the cluster with SIGKILL, which gives it no time to save anything.
func (c *Cluster) Kill(t testing.TB) {
	t.Helper()
	c.requireOwn(t)
	if err := c.daemon.kill(); err != nil {
		t.Fatalf("kill the cluster: %v", err)
	}
}

// Restart stops the cluster if it is running and starts it again on the same
// directory.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	c.Stop(t)
	if err := c.start(); err != nil {
		t.Fatalf("restart the cluster: %v", err)
	}
}

func newCluster(options []StartOption) (*Cluster, error) {
	cluster := &Cluster{}
	for _, option := range options {
		option(&cluster.settings)
	}
	var err error
	if cluster.binary, err = findBinary(); err != nil {
		return nil, err
	}
	if !cluster.settings.hostNetwork {
		if cluster.PodNetwork, err = process.networks.take(); err != nil {
			return nil, err
		}
	}
	cluster.Dir = cluster.settings.dir
	if cluster.Dir == "" {
		// Not the test's own directory: its name can make socket paths too long.
		if cluster.Dir, err = os.MkdirTemp("", "kubetest-"); err != nil {
			return nil, err
		}
	}
	cluster.Kubeconfig = filepath.Join(cluster.Dir, "kubeconfig")
	return cluster, nil
}

func (c *Cluster) start() error {
	started, err := startDaemon(c.binary, c.arguments())
	c.daemon = started
	if err != nil {
		return err
	}
	if printed := started.stdout.firstLine(); printed != c.Kubeconfig {
		return fmt.Errorf("%s printed %q, not the path of the kubeconfig %s", c.binary, printed, c.Kubeconfig)
	}
	if c.Cluster == nil {
		c.Cluster, err = kube.Connect(c.Kubeconfig, kube.Version("kubetest"))
	}
	return err
}

func (c *Cluster) arguments() []string {
	podNetwork := "host"
	if c.PodNetwork.IsValid() {
		podNetwork = c.PodNetwork.String()
	}
	return []string{
		"--dir=" + c.Dir, "--port=0", "--stop-with-stdin",
		"--pod-network=" + podNetwork, fmt.Sprintf("--node=%t", !c.settings.withoutNode),
	}
}

func (c *Cluster) stop() error {
	if c.daemon == nil {
		return nil
	}
	if c.Cluster != nil {
		c.Cluster.Close()
	}
	return c.daemon.stop()
}

// remove gives back what the cluster has taken, once it is stopped.
func (c *Cluster) remove() error {
	if c.PodNetwork.IsValid() {
		process.networks.release(c.PodNetwork)
	}
	if c.settings.dir != "" {
		return nil
	}
	return os.RemoveAll(c.Dir)
}

func (c *Cluster) requireOwn(t testing.TB) {
	t.Helper()
	if c.isShared {
		t.Fatal("other tests use the shared cluster: use kubetest.Start for a cluster that may be stopped")
	}
}

func (c *Cluster) showLogOnFailure(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the cluster's log:\n%s", c.logTail())
		}
	})
}

func requireNetwork(t testing.TB) {
	t.Helper()
	if !inPrivateNetwork() {
		t.Fatal("a cluster needs the private network: call kubetest.Main from TestMain")
	}
}
