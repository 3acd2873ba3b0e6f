package join

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/secret"
)

// KeySource provides the API key. It is read again when the key was rejected,
// so that a new key needs no restart.
type KeySource interface {
	Key(context.Context) (secret.Text, error)
}

// keyLimit bounds a key.
const keyLimit = 4 << 10

// KeyFile reads the key from a file, such as a mounted Secret.
func KeyFile(path string) KeySource { return keyFile(path) }

// KeySecret reads the key from a Secret of the cluster.
func KeySecret(cluster *kube.Cluster, namespace, name, key string) KeySource {
	return keySecret{cluster: cluster, namespace: namespace, name: name, key: key}
}

// keyFile is a KeySource that reads a file. It is read for each registration,
// so that a replaced key takes effect.
type keyFile string

// Key reads the file.
func (f keyFile) Key(context.Context) (secret.Text, error) {
	file, err := os.Open(string(f))
	if err != nil {
		return secret.Text{}, fmt.Errorf("read the API key: %w", err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, keyLimit+1))
	if err != nil {
		return secret.Text{}, fmt.Errorf("read the API key: %w", err)
	}
	return cleanKey(string(content), "the file "+string(f))
}

// keySecret is a KeySource that reads a field of a Secret, for each
// registration.
type keySecret struct {
	cluster              *kube.Cluster
	namespace, name, key string
}

// Key reads the Secret.
func (s keySecret) Key(ctx context.Context) (secret.Text, error) {
	where := fmt.Sprintf("the key %s of the Secret %s/%s", s.key, s.namespace, s.name)
	found, err := s.cluster.Client.CoreV1().Secrets(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return secret.Text{}, fmt.Errorf("there is no Secret %s/%s with the API key: make it with kubectl create secret generic %s -n %s --from-file=%s=FILE",
			s.namespace, s.name, s.name, s.namespace, s.key)
	case err != nil:
		return secret.Text{}, fmt.Errorf("read %s: %w", where, err)
	}
	return cleanKey(string(found.Data[s.key]), where)
}

// cleanKey removes the line end of a file, and refuses characters that no
// header can have.
func cleanKey(text, where string) (secret.Text, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return secret.Text{}, fmt.Errorf("%s has no API key in it: make one with slipway api-key create NAME --scope runtime-register, and write it there", where)
	case len(text) > keyLimit:
		return secret.Text{}, fmt.Errorf("%s is too long for an API key", where)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return secret.Text{}, fmt.Errorf("%s has characters that no API key has: write the key alone", where)
	}
	return secret.New(text), nil
}

// fingerprint identifies a key without revealing it. Keys are random, so that
// none can be guessed from its hash.
func fingerprint(key secret.Text) string {
	sum := sha256.Sum256([]byte("slipway key " + key.Reveal()))
	return hex.EncodeToString(sum[:8])
}
