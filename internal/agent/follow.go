package agent

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// complain logs what keeps something from being read, once for each change of
// it, and makes it the reason why the agent is not ready.
func (a *agent) complain(what string, condition *observe.Condition) func(error) {
	var mu sync.Mutex
	told := ""
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		kind := kube.FailureKind(err)
		if kind == told {
			return
		}
		told = kind
		if err == nil {
			return
		}
		a.log.Error("something cannot be read; it is tried again", "what", what, observe.KeyError, err)
		if condition != nil {
			condition.Unmet(what + " cannot be read: " + err.Error())
		}
	}
}

// followCluster follows what the control namespace says, until the context is
// done. The channel is closed when all of it was read once.
func (a *agent) followCluster(ctx context.Context, beside *sync.WaitGroup) <-chan struct{} {
	core := a.options.Cluster.Client.CoreV1()
	home := a.options.ControlNamespace
	missing := a.readiness.credentials
	var first sync.WaitGroup
	// once marks the first reading of each part.
	once := func() func() {
		first.Add(1)
		return sync.OnceFunc(first.Done)
	}
	labelled, hooks, hosts, authorities := once(), once(), once(), once()
	beside.Go(func() {
		failed := a.complain("the Secrets of the namespace "+home, missing)
		_ = kube.Follow(ctx, core.Secrets(home), kube.Labelled(credential.TypeLabel), failed, func(secrets []*corev1.Secret) {
			a.takeSecrets(secrets)
			labelled()
		})
	})
	beside.Go(func() {
		failed := a.complain("the Secret "+home+"/"+a.options.WebhookSecret, missing)
		_ = kube.Follow(ctx, core.Secrets(home), kube.Named(a.options.WebhookSecret), failed, func(found []*corev1.Secret) {
			a.secrets.take(found)
			hooks()
		})
	})
	for _, part := range []struct {
		name string
		done func()
	}{{credential.KnownHostsConfigMap, hosts}, {credential.AuthoritiesConfigMap, authorities}} {
		beside.Go(func() {
			failed := a.complain("the ConfigMap "+home+"/"+part.name, missing)
			_ = kube.Follow(ctx, core.ConfigMaps(home), kube.Named(part.name), failed, func(found []*corev1.ConfigMap) {
				a.takeConfigMap(part.name, found)
				part.done()
			})
		})
	}
	beside.Go(func() {
		// Nothing waits for it: it is read only to report what has no effect.
		failed := a.complain("the ConfigMap "+home+"/"+argoSettingsConfigMap, nil)
		_ = kube.Follow(ctx, core.ConfigMaps(home), kube.Named(argoSettingsConfigMap), failed, func(found []*corev1.ConfigMap) {
			a.takeSettings(ctx, found)
		})
	})
	if a.options.Credential != nil {
		filed := once()
		beside.Go(func() { a.followCredentialFile(ctx, filed) })
	}
	beside.Go(func() { a.mailbox.follow(ctx) })
	read := make(chan struct{})
	go func() {
		first.Wait()
		close(read)
	}()
	return read
}
