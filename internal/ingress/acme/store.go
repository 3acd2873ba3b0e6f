package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/ingress/wish"
)

// The annotations of a certificate that only this package reads.
const (
	// serverAnnotation is the directory that it comes from. One of another
	// directory is replaced: who leaves a test authority wants that.
	serverAnnotation = "slipway.dev/acme-server"
	// ownerAnnotation is the installation that looks after it.
	ownerAnnotation = "slipway.dev/acme-owner"
	// unwishedAnnotation is since when nobody wishes for it.
	unwishedAnnotation = "slipway.dev/acme-unwished-since"
)

const (
	requestTimeout = 15 * time.Second
	// keepTries is how often it is tried to keep a certificate that is paid for,
	// with twice the pause each time: for two minutes.
	keepTries = 8
)

// keepBackoff is for the tries to keep a certificate.
var keepBackoff = backoff.Policy{First: time.Second, Longest: 64 * time.Second}

// errNotOurs is about a Secret of somebody else.
var errNotOurs = errors.New("a Secret of that name is not the edge's: rename or delete it")

// held is what there is of a wish.
type held struct {
	// secret is nil when there is none.
	secret *corev1.Secret
	// leaf is the certificate in it, if it is for the hosts of the wish.
	leaf *x509.Certificate
	// stale is set where it comes from another authority than it would now.
	stale bool
}

// cupboard keeps certificates in Secrets.
type cupboard struct {
	manager  *Manager
	resolver Resolver
}

func (c *cupboard) read(ctx context.Context, wanted wish.Wish) (held, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := c.manager.cluster.Client.CoreV1().Secrets(wanted.Secret.Namespace).Get(ctx, wanted.Secret.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return held{}, nil
	case err != nil:
		return held{}, fmt.Errorf("the %s cannot be read: %w", wanted.Secret, err)
	case !wish.Fetched(found.Labels, found.Annotations, wanted.Resolver, wanted.Hosts):
		return held{}, fmt.Errorf("%s: %w", wanted.Secret, errNotOurs)
	}
	return held{
		secret: found, leaf: leafOf(found, wanted.Hosts),
		stale: found.Annotations[serverAnnotation] != c.resolver.Directory,
	}, nil
}

// leafOf is the certificate of a Secret; nil when there is none with its key, or
// it is not for all of the hosts.
func leafOf(of *corev1.Secret, hosts []string) *x509.Certificate {
	pair, err := tls.X509KeyPair(of.Data[corev1.TLSCertKey], of.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil
	}
	for _, host := range hosts {
		if pair.Leaf.VerifyHostname(host) != nil {
			return nil
		}
	}
	return pair.Leaf
}

func (c *cupboard) write(ctx context.Context, wanted wish.Wish, has held, fresh *issued) error {
	if fresh == nil {
		return c.put(ctx, wanted, has, nil)
	}
	// It cost an order: what the API server suffers from may be over soon, and
	// who has to stop tries it once more.
	var err error
	for try := range keepTries {
		if try > 0 && backoff.Sleep(ctx, keepBackoff.Base(try)) != nil {
			break
		}
		if err = c.put(context.WithoutCancel(ctx), wanted, has, fresh); err == nil {
			return nil
		}
		now, unread := c.read(ctx, wanted)
		switch {
		case errors.Is(unread, errNotOurs):
			return unread
		case unread == nil:
			has = now
		}
	}
	return fmt.Errorf("the certificate was issued, but the %s could not be written: %w", wanted.Secret, err)
}

// put makes one attempt to write. Without a certificate nothing is written, only
// asked for.
func (c *cupboard) put(ctx context.Context, wanted wish.Wish, has held, fresh *issued) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	client := c.manager.cluster.Client.CoreV1().Secrets(wanted.Secret.Namespace)
	next := c.secretOf(wanted, has.secret)
	var only []string
	if fresh == nil {
		only = []string{metav1.DryRunAll}
	} else {
		next.Data = map[string][]byte{corev1.TLSCertKey: fresh.chain, corev1.TLSPrivateKeyKey: fresh.key}
	}
	var err error
	if has.secret == nil {
		_, err = client.Create(ctx, next, metav1.CreateOptions{DryRun: only, FieldManager: fieldManager})
	} else {
		_, err = client.Update(ctx, next, metav1.UpdateOptions{DryRun: only, FieldManager: fieldManager})
	}
	return err
}

// fieldManager is who writes Secrets.
const fieldManager = "slipway-acme"

// secretOf is the Secret for a wish, with what it had before.
func (c *cupboard) secretOf(wanted wish.Wish, before *corev1.Secret) *corev1.Secret {
	next := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: wanted.Secret.Namespace, Name: wanted.Secret.Name},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}},
	}
	if before != nil {
		next = before.DeepCopy()
	}
	next.Labels = with(next.Labels, map[string]string{wish.ManagedLabel: wish.ManagedValue, wish.PurposeLabel: wish.PurposeCertificate})
	next.Annotations = with(next.Annotations, map[string]string{
		wish.ResolverAnnotation: wanted.Resolver, wish.HostsAnnotation: strings.Join(wanted.Hosts, ","),
		serverAnnotation: c.resolver.Directory, ownerAnnotation: c.manager.options.Owner,
	})
	delete(next.Annotations, unwishedAnnotation)
	return next
}

func with(before, more map[string]string) map[string]string {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, more)
	return all
}
