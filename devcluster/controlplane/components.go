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

// parseInto gives a component its options in the spelling of its own command
// line, which is the interface that Kubernetes keeps stable.
func parseInto(sets cliflag.NamedFlagSets, args []string) error {
	flags := pflag.NewFlagSet("component", pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	return flags.Parse(args)
}

func (c *Cluster) startAPIServer(cfg Config, etcdURL string) error {
	// The parts talk to an API server of their own version: warnings about deprecated kinds are noise.
	processOnce.Do(func() { rest.SetDefaultWarningHandler(rest.NoWarnings{}) })
	o := apiserveroptions.NewServerRunOptions()
	cr := c.Credentials
	err := parseInto(o.Flags(), []string{
		"--advertise-address=" + cfg.NodeAddress.String(),
		"--service-cluster-ip-range=" + serviceCIDR,
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--profiling=false",

		"--etcd-servers=" + etcdURL,

		"--tls-cert-file=" + cr.apiServer.CertFile,
		"--tls-private-key-file=" + cr.apiServer.KeyFile,
		"--client-ca-file=" + cr.Cluster.File(),

		"--kubelet-certificate-authority=" + cr.Cluster.File(),
		"--kubelet-client-certificate=" + cr.kubeletClient.CertFile,
		"--kubelet-client-key=" + cr.kubeletClient.KeyFile,
		"--kubelet-preferred-address-types=InternalIP",

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
	o.SecureServing.Listener = cfg.Listener
	o.SecureServing.BindPort = cfg.Listener.Addr().(*net.TCPAddr).Port
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

func (c *Cluster) startControllerManager(cfg Config, kubeconfig string) error {
	o, err := manageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
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
		// The rate of each controller is Kubernetes' own, so that those who wait for the API server do not wait for controllers
		// that have much to do. But forty controllers ask for a token each before any of them starts, and may have them at once.
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
