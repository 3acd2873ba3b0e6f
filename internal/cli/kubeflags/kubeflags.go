// Package kubeflags has what commands share that connect to a cluster as the
// user would with kubectl.
package kubeflags

import (
	"errors"
	"net/url"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

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

// MissingKind reports whether the API server does not serve the kind at all: a
// 404 for a kind names no object, a 404 for an object does.
func MissingKind(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == ""
}

// Add adds the flags that select a cluster, with kubectl's names and defaults.
func Add(command *cobra.Command, local *kube.UserChoice) {
	command.Flags().StringVar(&local.Kubeconfig, "kubeconfig", "", "kubeconfig file (default KUBECONFIG or ~/.kube/config)")
	command.Flags().StringVar(&local.Context, "context", "", "context of the kubeconfig (default its current one)")
}
