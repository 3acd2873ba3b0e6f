// Command slipway-node is the binary of a real node of the development cluster,
// beside a container runtime: the kubelet and kube-proxy of Kubernetes in one.
// The first argument selects one of the two; the rest are its own flags.
//
// It is for the end-to-end test (make e2e), which needs root and a private
// containerd. The process node of slipway-devcluster needs neither.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	var command *cobra.Command
	switch os.Args[1] {
	case "kubelet":
		command = kubelet.NewKubeletCommand(context.Background())
	case "kube-proxy":
		command = proxy.NewProxyCommand()
	default:
		usage()
	}
	// Both commands parse os.Args themselves, so the first argument is removed.
	os.Args = os.Args[1:]
	os.Exit(cli.Run(command))
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: slipway-node kubelet|kube-proxy FLAGS")
	os.Exit(2)
}
