package clusters

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/secret"
)

const (
	// tokenLifetime is requested; the cluster may grant less.
	tokenLifetime = 24 * time.Hour
	// renewInterval is the least time between two renewals, and the delay after
	// a failed one.
	renewInterval = time.Minute
	renewTimeout  = 15 * time.Second
)

// serverVersion returns the version of an API server. It sends an authenticated
// request first, because anonymous clients may read /version.
func serverVersion(ctx context.Context, cluster *kube.Cluster) (string, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/version", Verb: "get"},
	}}
	if _, err := cluster.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	raw, err := cluster.Client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return "", err
	}
	return parseVersion(raw)
}

// renew replaces the token of a cluster when half of its lifetime is over, as
// long as the token is ours to renew. Half of it leaves time for retries while
// the cluster is unreachable.
func (f *Fleet) renew(ctx context.Context, one *member) {
	for ctx.Err() == nil {
		entry := one.spec.Load()
		if entry.accountName == "" {
			// It may become ours when the Secret is replaced.
			_ = backoff.Sleep(ctx, renewInterval)
			continue
		}
		// The lifetime was granted by the cluster and may be shorter than
		// requested.
		left := entry.expires.Sub(time.Now())
		if left > tokenLifetime/2 {
			_ = backoff.Sleep(ctx, min(left-tokenLifetime/2, time.Hour))
			continue
		}
		if err := f.renewOnce(ctx, one.cluster, entry); err != nil && ctx.Err() == nil {
			f.Log.Warn("cannot renew cluster token; retrying",
				"cluster", entry.Name, "expires", entry.expires, observe.KeyError, err)
		}
		_ = backoff.Sleep(ctx, renewInterval)
	}
}

// renewOnce requests a new token and stores it in the Secret, from which all
// replicas read it.
func (f *Fleet) renewOnce(ctx context.Context, cluster *kube.Cluster, entry *ClusterSpec) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	seconds := int64(tokenLifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	// The old token stays valid until it expires, so that a failure after this
	// point loses nothing.
	made, err := cluster.Client.CoreV1().ServiceAccounts(entry.accountNamespace).CreateToken(ctx, entry.accountName, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("request a token for %s/%s: %w", entry.accountNamespace, entry.accountName, err)
	}
	if made.Status.Token == "" {
		return errors.New("the response of the cluster has no token")
	}
	config, err := entry.access.config(secret.New(made.Status.Token))
	if err != nil {
		return err
	}
	secrets := f.Home.Client.CoreV1().Secrets(f.Namespace)
	stored, err := secrets.Get(ctx, entry.SecretName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	// Another replica or a user changed the Secret: the watch delivers it.
	if stored.ResourceVersion != entry.SecretVersion {
		return nil // changed concurrently; the next run reads the new state
	}
	setToken(stored, config, made.Status.ExpirationTimestamp.Time)
	_, err = secrets.Update(ctx, stored, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// setToken stores a config and the expiry of its token in a Secret.
func setToken(into *corev1.Secret, config []byte, expires time.Time) {
	if into.Data == nil {
		into.Data = map[string][]byte{}
	}
	if into.Annotations == nil {
		into.Annotations = map[string]string{}
	}
	into.Data["config"] = config
	into.Annotations[expiryAnnotation] = expires.UTC().Format(time.RFC3339)
}
