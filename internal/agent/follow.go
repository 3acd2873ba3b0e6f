package agent

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/kube"
)

// errFollowing is what a condition says that never holds.
var errFollowing = errors.New("following goes on")

// follow tells of the selected objects, all of them, at the start and after each
// change, until the context is done.
func follow[T runtime.Object, L runtime.Object](ctx context.Context, from kube.Source[L], selected metav1.ListOptions, changed func([]T)) {
	_, _ = kube.WaitFor(ctx, from, selected, func(objects []T) error {
		changed(objects)
		return errFollowing
	})
}

// followCluster follows what the control namespace says, until the context is
// done. The channel is closed when all of it was read once.
func (a *agent) followCluster(ctx context.Context, beside *sync.WaitGroup) <-chan struct{} {
	core := a.options.Cluster.Client.CoreV1()
	home := a.options.ControlNamespace
	var first sync.WaitGroup
	// once marks the first reading of each part.
	once := func() func() {
		first.Add(1)
		return sync.OnceFunc(first.Done)
	}
	labelled, hooks, hosts, authorities := once(), once(), once(), once()
	beside.Go(func() {
		follow(ctx, core.Secrets(home), kube.Labelled(credential.TypeLabel), func(secrets []*corev1.Secret) {
			a.takeSecrets(secrets)
			labelled()
		})
	})
	beside.Go(func() {
		follow(ctx, core.Secrets(home), kube.Named(a.options.WebhookSecret), func(found []*corev1.Secret) {
			a.secrets.take(found)
			hooks()
		})
	})
	for _, part := range []struct {
		name string
		done func()
	}{{credential.KnownHostsConfigMap, hosts}, {credential.AuthoritiesConfigMap, authorities}} {
		beside.Go(func() {
			follow(ctx, core.ConfigMaps(home), kube.Named(part.name), func(found []*corev1.ConfigMap) {
				a.takeConfigMap(part.name, found)
				part.done()
			})
		})
	}
	beside.Go(func() { a.mailbox.follow(ctx) })
	read := make(chan struct{})
	go func() {
		first.Wait()
		close(read)
	}()
	return read
}
