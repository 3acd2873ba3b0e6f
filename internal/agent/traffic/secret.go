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

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/observe/sharedtls"
)

// SecretKey is the key of the Secret that edges and the agent share.
const SecretKey = "secret"

const (
	secretBytes = 32
	// provideRetry is how long is waited after the Secret could not be made.
	provideRetry = 15 * time.Second
	// secretTime bounds a question to the API server about it.
	secretTime = 10 * time.Second
)

// Secret gives what edges and the agent share.
type Secret interface {
	// Read gives it as it is now.
	Read(ctx context.Context) ([]byte, error)
	// Provide makes it if it is missing, however often it takes.
	Provide(ctx context.Context) error
}

// SecretFile is a Secret in a file that others make.
type SecretFile string

// Read reads the file.
func (f SecretFile) Read(context.Context) ([]byte, error) { return sharedtls.ReadSecret(string(f)) }

// Provide waits until the context is done: the file is made by others.
func (f SecretFile) Provide(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// ClusterSecret is a Secret of Kubernetes. Edges mount it.
type ClusterSecret struct {
	Cluster         *kube.Cluster
	Namespace, Name string
	Log             *slog.Logger
}

// Read gets it, and makes it if it is missing.
func (s ClusterSecret) Read(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTime)
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

// create makes it. Another replica may have been quicker.
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

// Provide makes it early: a Pod sees a Secret that comes later only after a while.
func (s ClusterSecret) Provide(ctx context.Context) error {
	retry := time.NewTicker(provideRetry)
	defer retry.Stop()
	for {
		_, err := s.Read(ctx)
		if err == nil {
			<-ctx.Done()
			return ctx.Err()
		}
		s.Log.Warn("the secret that edges and the agent share cannot be made; the console shows no traffic", observe.KeyError, err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-retry.C:
		}
	}
}
