package kubetest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest/privatenet"
	"slipway.dev/slipway/internal/programs"
)

// Cluster is a running development cluster: a real API server with its
// controllers, and a node unless WithoutNode was given. The embedded connection
// stays valid across Restart, because the address and credentials are kept in
// Dir.
type Cluster struct {
	*kube.Cluster

	// Dir holds all state of the cluster.
	Dir string
	// Kubeconfig is the file that the cluster wrote for its administrator.
	Kubeconfig string
	// PodNetwork is the range of its Pod addresses. It is not valid with
	// HostNetwork.
	PodNetwork netip.Prefix

	// isShared forbids Stop, Kill and Restart. daemon is nil until the first
	// start, and is replaced by Restart.
	binary   string
	settings startSettings
	isShared bool
	daemon   *daemon
}

// StartOption changes the cluster that Start starts.
type StartOption func(*startSettings)

// startSettings are the collected options; the zero value is the default.
type startSettings struct {
	withoutNode bool
	hostNetwork bool
	dir         string
	programs    map[string]string
}

// WithoutNode leaves out the node: Pods stay Pending. The cluster starts faster
// and is enough for a test that only reads and writes objects.
func WithoutNode() StartOption {
	return func(settings *startSettings) { settings.withoutNode = true }
}

// HostNetwork gives Pods the address of the host and a free port each, instead
// of an address of their own.
func HostNetwork() StartOption {
	return func(settings *startSettings) { settings.hostNetwork = true }
}

// Programs runs images as programs of this machine, by reference. Each Pod then
// has a network namespace, so that two programs can listen on the same port of
// all addresses.
func Programs(byImage map[string]string) StartOption {
	return func(settings *startSettings) { settings.programs = byImage }
}

// InDir keeps the state in a directory of the caller, who also removes it. A
// second cluster on the same directory continues with the state of the first.
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
	// Registered before the start, so that a cluster that failed to start is
	// removed as well. Cleanups run last in, first out: the log below is read
	// before remove deletes it.
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

// PID returns the process ID of the cluster.
func (c *Cluster) PID() int { return c.daemon.PID() }

// Exited returns a channel that is closed when the process of the cluster has
// ended.
func (c *Cluster) Exited() <-chan struct{} { return c.daemon.Exited() }

// Stop stops the cluster cleanly by closing its standard input. It returns when
// the process has ended.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	c.requireOwn(t)
	if err := c.stop(); err != nil {
		t.Fatalf("stop the cluster: %v", err)
	}
}

// Kill ends the cluster with SIGKILL, which leaves no time to flush state.
// Restart then recovers from the disk.
func (c *Cluster) Kill(t testing.TB) {
	t.Helper()
	c.requireOwn(t)
	c.daemon.kill()
}

// Restart stops the cluster if it is running and starts it again on the same
// directory. Watches of the test end and have to be started again.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	c.Stop(t)
	if err := c.start(); err != nil {
		t.Fatalf("restart the cluster: %v", err)
	}
}

// newCluster takes the resources of a cluster, a Pod network and a directory,
// without starting it. remove returns them.
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
	if cluster.settings.programs != nil {
		// All of PodNetwork is local, and a network of namespaces must not be.
		base := cluster.PodNetwork.Addr().As4()
		base[1]++
		cluster.PodNetwork = netip.PrefixFrom(netip.AddrFrom4(base), cluster.PodNetwork.Bits())
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

// start runs the binary, waits for the readiness line, and connects on the
// first call. daemon is set even on error, so that stop ends a process that
// hangs.
func (c *Cluster) start() error {
	started, err := startDaemon(c.binary, c.arguments())
	c.daemon = started
	if err != nil {
		return err
	}
	if printed := started.firstLine(); printed != c.Kubeconfig {
		return fmt.Errorf("%s printed %q, not the path of the kubeconfig %s", c.binary, printed, c.Kubeconfig)
	}
	if c.Cluster == nil {
		c.Cluster, err = kube.Connect(c.Kubeconfig, kube.Version("kubetest"))
	}
	return err
}

// arguments returns the command line of the binary. Port 0 is chosen on the
// first start and kept in the directory. With --stop-with-stdin the cluster
// ends when the test process dies, because the kernel closes the pipe. Its state
// is not for later, so it does not wait for the disk, which is busy while other
// tests are linked.
func (c *Cluster) arguments() []string {
	podNetwork := "host"
	if c.PodNetwork.IsValid() {
		podNetwork = c.PodNetwork.String()
	}
	arguments := []string{
		"--dir=" + c.Dir, "--port=0", "--stop-with-stdin", "--fsync=false",
		"--pod-network=" + podNetwork, fmt.Sprintf("--node=%t", !c.settings.withoutNode),
	}
	for image, program := range c.settings.programs {
		arguments = append(arguments, "--image="+image+"="+program)
	}
	return arguments
}

// stop closes the connection and ends the process. It does nothing before the
// first start, and may be called more than once.
func (c *Cluster) stop() error {
	if c.daemon == nil {
		return nil
	}
	if c.Cluster != nil {
		c.Cluster.Close()
	}
	return c.daemon.stop()
}

// remove releases the Pod network and deletes the directory, after the cluster
// has stopped. A directory of the caller is kept.
func (c *Cluster) remove() error {
	if c.PodNetwork.IsValid() {
		process.networks.release(c.PodNetwork)
	}
	if c.settings.dir != "" {
		return nil
	}
	return os.RemoveAll(c.Dir)
}

// requireOwn fails the test if the cluster is shared with other tests.
func (c *Cluster) requireOwn(t testing.TB) {
	t.Helper()
	if c.isShared {
		t.Fatal("other tests use the shared cluster: use kubetest.Start for a cluster that may be stopped")
	}
}

// showLogOnFailure prints the end of the cluster's log if the test fails.
func (c *Cluster) showLogOnFailure(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			programs.ShowLog(t, "the cluster", c.logTail())
		}
	})
}

// requireNetwork fails the test outside of the private network, where a cluster
// would bind addresses of the host.
func requireNetwork(t testing.TB) {
	t.Helper()
	if !privatenet.Inside() {
		t.Fatal("a cluster needs the private network: call kubetest.Main from TestMain")
	}
}
