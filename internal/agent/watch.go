package agent

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/gitops/argosetting"
	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/signature"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// logOnce returns a function that logs an error once for each kind of it and
// sets it as the reason why the agent is not ready. The condition may be nil.
func (a *agent) logOnce(what string, condition *observe.Condition) func(error) {
	var mu sync.Mutex
	text := ""
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		// The kind and not the text, which can differ with every attempt.
		kind := kube.FailureKind(err)
		if kind == text {
			return
		}
		text = kind
		if err == nil {
			return
		}
		a.log.Error("watch failed; retrying", "what", what, observe.KeyError, err)
		if condition != nil {
			condition.Unmet(what + " cannot be read: " + err.Error())
		}
	}
}

// watchCluster watches the Secrets and ConfigMaps of the control namespace
// until the context is done. The returned channel is closed when each was read
// once.
func (a *agent) watchCluster(ctx context.Context, beside *sync.WaitGroup) <-chan struct{} {
	core := a.options.Cluster.Client.CoreV1()
	home := a.options.ControlNamespace
	missing := a.readiness.credentials
	var first sync.WaitGroup
	// once registers one more object that must be read, and returns the
	// function that marks it as read.
	once := func() func() {
		first.Add(1)
		return sync.OnceFunc(first.Done)
	}
	labelled, hooks, hosts, authorities, settings, keys := once(), once(), once(), once(), once(), once()
	beside.Go(func() {
		failed := a.logOnce("the Secrets of the namespace "+home, missing)
		_ = kube.Follow(ctx, core.Secrets(home), kube.Labelled(credential.TypeLabel), failed, func(secrets []*corev1.Secret) {
			a.updateSecrets(secrets)
			labelled()
		})
	})
	beside.Go(func() {
		failed := a.logOnce("the Secret "+home+"/"+a.options.WebhookSecret, missing)
		_ = kube.Follow(ctx, core.Secrets(home), kube.Named(a.options.WebhookSecret), failed, func(found []*corev1.Secret) {
			a.secrets.update(found)
			hooks()
		})
	})
	for _, part := range []struct {
		name string
		done func()
	}{{credential.KnownHostsConfigMap, hosts}, {credential.AuthoritiesConfigMap, authorities}} {
		beside.Go(func() {
			failed := a.logOnce("the ConfigMap "+home+"/"+part.name, missing)
			_ = kube.Follow(ctx, core.ConfigMaps(home), kube.Named(part.name), failed, func(found []*corev1.ConfigMap) {
				a.updateConfigMap(part.name, found)
				part.done()
			})
		})
	}
	beside.Go(func() {
		failed := a.logOnce("the ConfigMap "+home+"/"+customization.ConfigMap, missing)
		_ = kube.Follow(ctx, core.ConfigMaps(home), kube.Named(customization.ConfigMap), failed, func(found []*corev1.ConfigMap) {
			a.updateSettings(ctx, found)
			settings()
		})
	})
	// Nothing waits for the next one, which reports only.
	beside.Go(func() {
		failed := a.logOnce("the ConfigMap "+home+"/"+argosetting.ParametersConfigMap, nil)
		_ = kube.Follow(ctx, core.ConfigMaps(home), kube.Named(argosetting.ParametersConfigMap), failed, func(found []*corev1.ConfigMap) {
			a.updateParameters(ctx, found)
		})
	})
	beside.Go(func() {
		failed := a.logOnce("the ConfigMap "+home+"/"+signature.ConfigMap, nil)
		// A failure ends the wait: without the keys commits that have to be signed are
		// refused, and a role of before that has no right to read them stops nothing else.
		observe := func(err error) {
			failed(err)
			if err != nil {
				keys()
			}
		}
		_ = kube.Follow(ctx, core.ConfigMaps(home), kube.Named(signature.ConfigMap), observe, func(found []*corev1.ConfigMap) {
			a.updateSignatureKeys(found)
			keys()
		})
	})
	if a.options.Credential != nil {
		filed := once()
		beside.Go(func() { a.watchCredentialFile(ctx, filed) })
	}
	beside.Go(func() { a.relay.run(ctx) })
	read := make(chan struct{})
	go func() {
		first.Wait()
		close(read)
	}()
	return read
}
