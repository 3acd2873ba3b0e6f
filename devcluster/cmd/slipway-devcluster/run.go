package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"

	"slipway.dev/slipway/devcluster/controlplane"
	"slipway.dev/slipway/devcluster/demo"
	"slipway.dev/slipway/devcluster/node"
	"slipway.dev/slipway/devcluster/pki"
	"slipway.dev/slipway/devcluster/statedir"
)

// nodeName is the name of the only Node, for the process node and for a
// kubelet.
const nodeName = "slipway"

// gcPercent is the heap growth that triggers a garbage collection. An API
// server allocates much short-lived memory: at Go's default of 100 it spends a
// tenth of its time on collection. GOGC in the environment overrides it.
const gcPercent = 200

// run runs a cluster until ctx ends or a part of it dies. It prints the path of
// the kubeconfig when the cluster is ready: programs that start it wait for
// this line. Deferred calls stop the node first, then the control plane, and
// release the lock last.
func run(ctx context.Context, o *options, stdout io.Writer) error {
	addresses, err := o.network()
	if err != nil {
		return err
	}
	programs, err := o.programs()
	if err != nil {
		return err
	}
	dir, lock, err := statedir.Open(o.dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	log, err := openLog(dir)
	if err != nil {
		return err
	}
	// The port is opened before the start: a port in use fails at once, and the
	// kubeconfigs can contain it.
	listener, err := statedir.Listen(dir, o.serverAddress(addresses), o.port)
	if err != nil {
		return err
	}
	if o.stopWithStdin {
		ctx = withStdin(ctx)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	began := time.Now()
	// The timeout covers the start only; the cause is the error message of a
	// start that exceeds it.
	starting, cancel := context.WithTimeoutCause(ctx, o.startTimeout, fmt.Errorf("not ready within %s (see %s)", o.startTimeout, logFile(dir)))
	defer cancel()
	cluster, err := controlplane.Start(starting, o.controlPlane(dir, listener, addresses, log))
	if err != nil {
		return startError(starting, err)
	}
	defer cluster.Stop()
	pods := &podRunner{programs: programs, ready: make(chan struct{}), ended: make(chan struct{})}
	if o.kubelet {
		if err := cluster.WriteNodeFiles(nodeName, addresses.node); err != nil {
			return startError(starting, fmt.Errorf("what a kubelet needs: %w", err))
		}
	}
	if o.processNode() {
		// Deferred after cluster.Stop, so it runs before: the node stops its
		// processes while the API server still responds.
		defer pods.start(ctx, cluster, dir, addresses, log)()
	} else {
		close(pods.ready)
	}
	// Ready, or the first of: the node ended, a part died, the timeout, a
	// signal.
	select {
	case <-pods.ready:
	case <-pods.ended:
		return startError(starting, cmp.Or(pods.err, context.Cause(starting)))
	case err := <-cluster.Dead():
		return startError(starting, err)
	case <-starting.Done():
		return startError(starting, context.Cause(starting))
	}
	log.Info("ready", "after", time.Since(began).Round(time.Millisecond), "kubeconfig", cluster.Kubeconfig)
	fmt.Fprintln(stdout, cluster.Kubeconfig)

	select {
	case <-ctx.Done():
		log.Info("stopping")
		return nil
	case <-pods.ended:
		return pods.err
	case err := <-cluster.Dead():
		return err
	}
}

// controlPlane returns the configuration of the control plane.
func (o *options) controlPlane(dir string, listener net.Listener, addresses network, log *slog.Logger) controlplane.Config {
	return controlplane.Config{
		Dir:          dir,
		Listener:     listener,
		NodeAddress:  addresses.node,
		SlicesByNode: o.processNode() && !addresses.podCIDR.IsValid(),
		Endpoints:    o.kubelet,
		Unsynced:     !o.fsync,
		Progress:     func(what string) { log.Info(what) },
	}
}

// podRunner is the process node while it runs. err is set before ended is
// closed, and may be read after that.
type podRunner struct {
	programs     map[string]string // by image
	ready, ended chan struct{}
	err          error
}

// start runs the node in a goroutine; the returned function stops it and waits
// until its processes have ended.
func (p *podRunner) start(ctx context.Context, cluster *controlplane.Cluster, dir string, addresses network, log *slog.Logger) func() {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(p.ended)
		cfg, err := nodeConfig(cluster, dir, addresses)
		if err == nil {
			cfg.Log = log.With("part", "node")
			cfg.Images = node.WithPrograms(p.programs, builtinImage)
			cfg.Namespaces = len(p.programs) > 0
			err = node.Run(ctx, cfg, func() { close(p.ready) })
		}
		if ctx.Err() != nil {
			return // stopped on request: no error
		}
		if err == nil {
			err = errors.New("ended without an error")
		}
		p.err = fmt.Errorf("node: %w", err)
	}()
	return func() { cancel(); <-p.ended }
}

// startError distinguishes a start that was interrupted, which is not reported,
// from one that failed.
func startError(starting context.Context, err error) error {
	if cause := context.Cause(starting); errors.Is(cause, context.Canceled) {
		return cause
	}
	return fmt.Errorf("the cluster did not start: %w", err)
}

// nodeConfig returns the configuration of the process node. Its serving
// certificate is signed by the cluster's authority, which the API server
// requires of kubelets, and only the API server's client certificate may read
// logs.
func nodeConfig(cluster *controlplane.Cluster, dir string, addresses network) (node.Config, error) {
	client, err := cluster.AdminClient()
	if err != nil {
		return node.Config{}, err
	}
	authority := cluster.Credentials.Cluster
	pair, err := authority.Issue("node", pki.Leaf{CommonName: nodeName, Server: true, IPs: []net.IP{addresses.node.AsSlice()}})
	if err != nil {
		return node.Config{}, err
	}
	serving, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		return node.Config{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return node.Config{}, err
	}
	return node.Config{
		Name:        nodeName,
		Address:     addresses.node,
		PodCIDR:     addresses.podCIDR,
		Client:      client,
		ServingCert: serving,
		ClientCA:    authority.Pool(),
		ClientName:  controlplane.KubeletClient,
		Dir:         dir,
		Executable:  self,
	}, nil
}

// builtinImage adapts demo.Lookup to the node, which does not depend on the
// images.
func builtinImage(ref string) (node.Image, error) {
	image, err := demo.Lookup(ref)
	return node.Image{Args: image.Args, Env: image.Env}, err
}

// withStdin returns a context that ends when standard input does. The kernel
// closes the pipe with the parent process, even when that is killed.
func withStdin(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return ctx
}

// logFile returns the path of the log.
func logFile(dir string) string { return filepath.Join(dir, "devcluster.log") }

// openLog sends our own log and klog's to one file; the file of the previous
// start is kept beside it.
func openLog(dir string) (*slog.Logger, error) {
	path := logFile(dir)
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	// klog would also write errors to standard error, and controllers that are
	// stopped log many.
	if err := errors.Join(flags.Set("logtostderr", "false"), flags.Set("stderrthreshold", "FATAL")); err != nil {
		return nil, err
	}
	klog.SetOutput(file)
	return slog.New(slog.NewTextHandler(file, nil)), nil
}
