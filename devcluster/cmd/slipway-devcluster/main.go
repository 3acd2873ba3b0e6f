// Command slipway-devcluster is a whole Kubernetes in one process, for
// development and tests: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, and a node that runs built-in demo images as local processes.
//
// See decision 0001 in docs/decisions: the development cluster is a Go module
// of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"

	"slipway.dev/slipway/devcluster/demo"
)

func main() {
	// The node starts this binary again for each container; that process must
	// not parse the flags of the cluster.
	if len(os.Args) > 1 && os.Args[1] == "demo-echo" {
		os.Exit(demo.Main(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // restores the default: a second signal kills the process
	if err := rootCommand().ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "slipway-devcluster:", err)
		os.Exit(1)
	}
}

// rootCommand returns the command that runs a cluster, with kubectl as a
// subcommand. main prints errors, so cobra is silent.
func rootCommand() *cobra.Command {
	o := defaultOptions()
	root := &cobra.Command{
		Use:   "slipway-devcluster --dir DIR",
		Short: "A real Kubernetes in one process, for development and tests",
		Long: `Runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler in one
process, and a node that runs the built-in demo images (slipway.dev/demo:v1, v2,
…) as local processes. All state is kept in one directory. When the cluster is
ready, the path of its kubeconfig is printed on standard output. It stops on
SIGINT or SIGTERM, and on the next start with the same directory everything is
still there.

It is made for development and tests. It is not a cluster for production: there
is one member of everything, no container runtime and no network policy.`,
		Example: `  slipway-devcluster --dir ~/.local/share/slipway-dev
  kubectl --kubeconfig ~/.local/share/slipway-dev/kubeconfig get nodes
  slipway-devcluster kubectl --kubeconfig ~/.local/share/slipway-dev/kubeconfig get nodes`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o, cmd.OutOrStdout()) },
	}
	o.addFlags(root.Flags())
	root.AddCommand(kubectlCommand())
	return root
}

// kubectlCommand returns kubectl of the cluster's own version, for machines
// that have none. It does not receive the command line: kubectl would search it
// for a plugin to execute, and find the values of our own flags.
func kubectlCommand() *cobra.Command {
	kubectl := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
		ConfigFlags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50),
		IOStreams:   genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
	})
	kubectl.Short = "kubectl of the cluster's own version"
	return kubectl
}
