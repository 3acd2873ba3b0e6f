package traffic

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/observe/sharedtls"
)

// SecretKey is the key in the Secret that edges and the agent share.
const SecretKey = "secret"

const (
	secretBytes = 32
	// provideRetryDelay is the delay after the Secret could not be created.
	provideRetryDelay = 15 * time.Second
	// secretTimeout bounds a request about it.
	secretTimeout = 10 * time.Second
)

// Secret provides the secret that edges and the agent share.
type Secret interface {
	// Read returns the current secret.
	Read(ctx context.Context) ([]byte, error)
	// Provide creates it if it is missing, with retries.
	Provide(ctx context.Context) error
}

// SecretFile is a secret in a file that others create.
type SecretFile string

// Read reads the file.
func (f SecretFile) Read(context.Context) ([]byte, error) { return sharedtls.ReadSecret(string(f)) }

// Provide waits until the context is done, because others create the file.
func (f SecretFile) Provide(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// ClusterSecret is a Secret of Kubernetes, which edges mount.
type ClusterSecret struct {
	Cluster         *kube.Cluster
	Namespace, Name string
	Log             *slog.Logger
}

// Read returns the secret, and creates it if it is missing. A Secret with a
// short key is refused rather than replaced: edges may have it mounted.
func (s ClusterSecret) Read(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	found, err := s.Cluster.Client.CoreV1().Secrets(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		found, err = s.create(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("the Secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	if len(found.Data[SecretKey]) < sharedtls.MinSecret {
		return nil, fmt.Errorf("the Secret %s/%s has no %s of at least %d bytes: delete it, and a new one is made", s.Namespace, s.Name, SecretKey, sharedtls.MinSecret)
	}
	return found.Data[SecretKey], nil
}

// create creates the Secret. Another replica may be faster; its secret counts
// then.
func (s ClusterSecret) create(ctx context.Context) (*corev1.Secret, error) {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // never fails
	client := s.Cluster.Client.CoreV1().Secrets(s.Namespace)
	made, err := client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: map[string]string{
			"app.kubernetes.io/part-of": "slipway", "app.kubernetes.io/component": "agent",
		}},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{SecretKey: []byte(base64.StdEncoding.EncodeToString(random))},
	}, metav1.CreateOptions{FieldManager: "slipway-agent"})
	if apierrors.IsAlreadyExists(err) {
		return client.Get(ctx, s.Name, metav1.GetOptions{})
	}
	return made, err
}

// Provide creates the Secret early, because a running Pod sees a new Secret
// only after a while.
func (s ClusterSecret) Provide(ctx context.Context) error {
	for {
		_, err := s.Read(ctx)
		if err == nil {
			<-ctx.Done()
			return ctx.Err()
		}
		s.Log.Warn("cannot create the secret shared with edges; the console shows no traffic", observe.KeyError, err)
		if backoff.Sleep(ctx, provideRetryDelay) != nil {
			return ctx.Err()
		}
	}
}
