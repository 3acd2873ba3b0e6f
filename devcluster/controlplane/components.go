package controlplane

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	apiserverapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	managerapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	manageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	schedulerapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// parseInto sets a component's options by its command-line flags, which is the
// interface that Kubernetes keeps stable; the fields of the option types are
// not.
func parseInto(sets cliflag.NamedFlagSets, args []string) error {
	flags := pflag.NewFlagSet("component", pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	return flags.Parse(args)
}

// startAPIServer configures and starts the API server. It returns before the
// server is ready. An invalid option is an error here, not a dead part.
func (c *Cluster) startAPIServer(cfg Config, etcdURL string) error {
	// The parts are clients of an API server of their own version: its warnings
	// about deprecated kinds are noise in the log.
	processOnce.Do(func() { rest.SetDefaultWarningHandler(rest.NoWarnings{}) })
	o := apiserveroptions.NewServerRunOptions()
	cr := c.Credentials
	err := parseInto(o.Flags(), []string{
		"--advertise-address=" + cfg.NodeAddress.String(),
		"--service-cluster-ip-range=" + serviceCIDR,
		"--allow-privileged=true",
		// The Node authorizer limits a kubelet to the objects of its own Pods.
		"--authorization-mode=Node,RBAC",
		"--profiling=false",

		"--etcd-servers=" + etcdURL,

		"--tls-cert-file=" + cr.apiServer.CertFile,
		"--tls-private-key-file=" + cr.apiServer.KeyFile,
		"--client-ca-file=" + cr.Cluster.File(),

		// With an authority the API server verifies nodes, before it forwards a
		// user's request for logs to one.
		"--kubelet-certificate-authority=" + cr.Cluster.File(),
		"--kubelet-client-certificate=" + cr.kubeletClient.CertFile,
		"--kubelet-client-key=" + cr.kubeletClient.KeyFile,
		"--kubelet-preferred-address-types=InternalIP",

		// Aggregated API servers trust the identity headers of a client with
		// this certificate, so it has an authority of its own.
		"--requestheader-client-ca-file=" + cr.frontProxy.File(),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + cr.frontProxyClient.CertFile,
		"--proxy-client-key-file=" + cr.frontProxyClient.KeyFile,

		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + cr.serviceAccountKey,
		"--service-account-key-file=" + cr.serviceAccountPublic,
	})
	if err != nil {
		return err
	}
	// The listener is already open, so that the port cannot be lost between its
	// choice and the start; the options still require a port.
	o.SecureServing.Listener = cfg.Listener
	o.SecureServing.BindPort = cfg.Listener.Addr().(*net.TCPAddr).Port
	// The registry of feature gates and versions is global to the process; Set
	// applies the flags to it once.
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	completed, err := o.Complete(context.Background())
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) != 0 {
		return utilerrors.NewAggregate(errs)
	}
	c.run("kube-apiserver", func(ctx context.Context) error { return apiserverapp.Run(ctx, completed) })
	return nil
}

// startControllerManager configures and starts the controllers. There is one
// replica, so there is no leader election, and no lease to wait for at a
// restart. It serves no metrics or health endpoint.
func (c *Cluster) startControllerManager(cfg Config, kubeconfig string) error {
	o, err := manageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	// "*" enables all controllers that are on by default; a name with a minus
	// turns one off.
	controllers := "*"
	if cfg.SlicesByNode {
		controllers += ",-endpointslice-controller"
	}
	if !cfg.Endpoints {
		controllers += ",-endpoints-controller"
	}
	known, off, aliases := managerapp.KnownControllers(), managerapp.ControllersDisabledByDefault(), managerapp.ControllerAliases()
	err = parseInto(o.Flags(known, off, aliases), []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--secure-port=0",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.Credentials.serviceAccountKey,
		"--root-ca-file=" + c.Credentials.Cluster.File(),
		"--cluster-signing-cert-file=" + c.Credentials.Cluster.File(),
		"--cluster-signing-key-file=" + c.Credentials.Cluster.KeyFile(),
		"--controllers=" + controllers,
		// The rate of each controller is the default of Kubernetes, so that
		// busy controllers do not slow down other clients of the API server.
		// The burst is higher: at the start forty controllers request a token
		// each, all at once.
		"--kube-api-qps=20",
		"--kube-api-burst=100",
		"--profiling=false",
	})
	if err != nil {
		return err
	}
	config, err := o.Config(context.Background(), known, off, aliases)
	if err != nil {
		return err
	}
	c.run("kube-controller-manager", func(ctx context.Context) error { return managerapp.Run(ctx, config.Complete()) })
	return nil
}

// startScheduler starts the scheduler, as a single replica like the controller
// manager. Setup needs the context of the part, so its errors arrive through
// Dead.
func (c *Cluster) startScheduler(kubeconfig string) error {
	o := scheduleroptions.NewOptions()
	err := parseInto(*o.Flags, []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--secure-port=0",
		"--leader-elect=false",
		"--profiling=false",
	})
	if err != nil {
		return err
	}
	c.run("kube-scheduler", func(ctx context.Context) error {
		config, scheduler, err := schedulerapp.Setup(ctx, o)
		if err != nil {
			return fmt.Errorf("set up: %w", err)
		}
		return schedulerapp.Run(ctx, config, scheduler)
	})
	return nil
}
