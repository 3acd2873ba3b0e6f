package kube_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/must"
)

// cleanupContext is for requests at the end of a test, when its own context is
// done.
func cleanupContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	return must.Get(kubernetes.NewForConfig(config))(t)
}
