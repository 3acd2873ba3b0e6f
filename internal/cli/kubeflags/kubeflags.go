// Package kubeflags has the flags and helpers of commands that connect to a
// cluster with the user's kubeconfig, as kubectl does.
package kubeflags

import (
	"net/url"

	"github.com/spf13/pflag"

	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/kube"
)

// HostOf returns the host of a URL, or the text itself if it is none.
func HostOf(address string) string {
	if parsed, err := url.Parse(address); err == nil && parsed.Host != "" {
		return parsed.Hostname()
	}
	return address
}

// RequestTimeout bounds the requests of a command before it waits or streams.
const RequestTimeout = inspect.RequestTimeout

// Connect creates a client for the chosen cluster, with the version of this
// program in the user agent. It sends no request yet, so that an error is one of
// the flags or of the kubeconfig: a usage error.
func Connect(choice kube.UserChoice) (*kube.Cluster, error) {
	cluster, err := kube.ConnectUser(choice, kube.Version(buildinfo.Read().Version))
	if err != nil {
		return nil, exit.UsageError{Err: err}
	}
	return cluster, nil
}

// Add adds the flags that select a cluster, with kubectl's names and defaults.
func Add(flags *pflag.FlagSet, local *kube.UserChoice) {
	flags.StringVar(&local.Kubeconfig, "kubeconfig", "", "kubeconfig file (default KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&local.Context, "context", "", "context of the kubeconfig (default its current one)")
}
