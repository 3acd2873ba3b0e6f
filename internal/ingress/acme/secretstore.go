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
	"slipway.dev/slipway/internal/ingress/certrequest"
)

// The annotations of a certificate's Secret that only this package reads.
const (
	// serverAnnotation is the directory of the authority that issued it. A
	// certificate of another directory is replaced, as after a move from a
	// staging to a production authority.
	serverAnnotation = "slipway.dev/acme-server"
	// ownerAnnotation is the installation that manages it.
	ownerAnnotation = "slipway.dev/acme-owner"
	// unusedAnnotation is since when no Ingress requests it. The name of the
	// annotation is older than that of the constant.
	unusedAnnotation = "slipway.dev/acme-unwished-since"
)

const (
	requestTimeout = 15 * time.Second
	// storeTries bounds the attempts to store an issued certificate, which take two
	// minutes with the backoff.
	storeTries = 8
)

// storeBackoff spaces the attempts to store an issued certificate.
var storeBackoff = backoff.Policy{First: time.Second, Longest: 64 * time.Second}

// errNotOurs is about a Secret that the edge did not create.
var errNotOurs = errors.New("a Secret of that name is not the edge's: rename or delete it")

// storedCertificate is what the cluster has for a request.
type storedCertificate struct {
	// secret is nil if it does not exist.
	secret *corev1.Secret
	// leaf is the certificate in it, if it covers the hosts of the request.
	leaf *x509.Certificate
	// stale is set if another authority issued it than the configured one.
	stale bool
}

// secretStore stores certificates in Secrets.
type secretStore struct {
	manager  *Manager
	resolver Resolver
}

// read implements certificateStore. A Secret that was created for another request,
// or by someone else, is an error and is never overwritten.
func (c *secretStore) read(ctx context.Context, wanted certrequest.Request) (storedCertificate, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := c.manager.cluster.Client.CoreV1().Secrets(wanted.Secret.Namespace).Get(ctx, wanted.Secret.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return storedCertificate{}, nil
	case err != nil:
		return storedCertificate{}, fmt.Errorf("the %s cannot be read: %w", wanted.Secret, err)
	case !certrequest.IssuedFor(found.Labels, found.Annotations, wanted.Resolver, wanted.Hosts):
		return storedCertificate{}, fmt.Errorf("%s: %w", wanted.Secret, errNotOurs)
	}
	return storedCertificate{
		secret: found, leaf: leafOf(found, wanted.Hosts),
		stale: found.Annotations[serverAnnotation] != c.resolver.Directory,
	}, nil
}

// leafOf returns the certificate of a Secret; nil if it has no key that matches,
// or does not cover all hosts.
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

// write implements certificateStore.
func (c *secretStore) write(ctx context.Context, wanted certrequest.Request, has storedCertificate, fresh *issued) error {
	if fresh == nil {
		return c.put(ctx, wanted, has, nil)
	}
	// The certificate cost an order, so failures of the API server are retried,
	// and a shutdown still gets one attempt (WithoutCancel).
	var err error
	for try := range storeTries {
		if try > 0 && backoff.Sleep(ctx, storeBackoff.Base(try)) != nil {
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

// put makes one attempt to write. Without a certificate it is a dry run.
func (c *secretStore) put(ctx context.Context, wanted certrequest.Request, has storedCertificate, fresh *issued) error {
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

// fieldManager owns the fields that this package writes.
const fieldManager = "slipway-acme"

// secretOf returns the Secret for a request, with what it had before.
func (c *secretStore) secretOf(wanted certrequest.Request, before *corev1.Secret) *corev1.Secret {
	next := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: wanted.Secret.Namespace, Name: wanted.Secret.Name},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}},
	}
	if before != nil {
		next = before.DeepCopy()
	}
	next.Labels = with(next.Labels, map[string]string{certrequest.ManagedLabel: certrequest.ManagedValue, certrequest.PurposeLabel: certrequest.PurposeCertificate})
	next.Annotations = with(next.Annotations, map[string]string{
		certrequest.ResolverAnnotation: wanted.Resolver, certrequest.HostsAnnotation: strings.Join(wanted.Hosts, ","),
		serverAnnotation: c.resolver.Directory, ownerAnnotation: c.manager.options.Owner,
	})
	delete(next.Annotations, unusedAnnotation)
	return next
}

// with returns a copy of a map with further entries: objects of the cluster are not
// modified in place.
func with(before, more map[string]string) map[string]string {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, more)
	return all
}
