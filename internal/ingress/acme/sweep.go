package acme

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/observe"
)

// sweepPage is the page size of the list of Secrets.
const sweepPage = 500

// sweepAll deletes unused challenges and certificates periodically, until the
// context is done.
func (m *Manager) sweepAll(ctx context.Context) {
	for {
		if err := m.sweepChallenges(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("sweep of challenges failed", observe.KeyError, err)
		}
		scopes := m.options.Namespaces
		if len(scopes) == 0 {
			scopes = []string{""}
		}
		for _, namespace := range scopes {
			if err := m.sweepCertificates(ctx, namespace); err != nil && ctx.Err() == nil {
				m.log.Warn("sweep of unused certificates failed", "namespace", namespace, observe.KeyError, err)
			}
		}
		if backoff.Sleep(ctx, jittered(m.timing.sweepInterval)) != nil {
			return
		}
	}
}

// sweepChallenges removes the challenges of orders that were interrupted. The
// worker of a resolver removes those that have a TXT record, with the record.
func (m *Manager) sweepChallenges(ctx context.Context) error {
	now := time.Now()
	return m.updateChallenges(ctx, func(entries map[string][]byte) {
		for token, value := range entries {
			entry, err := certrequest.DecodeChallenge(value)
			if m.options.Resolvers[entry.Resolver].DNS != nil {
				continue
			}
			if err != nil || now.Sub(entry.Created) > m.timing.keepChallenges {
				delete(entries, token)
			}
		}
	})
}

// sweepCertificates marks certificates that no Ingress requests, and deletes
// those that were marked more than keepUnused ago. The delay lets an Ingress be
// recreated without a new order.
func (m *Manager) sweepCertificates(ctx context.Context, namespace string) error {
	client := m.cluster.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
	options := metav1.ListOptions{
		LabelSelector: certrequest.ManagedLabel + "=" + certrequest.ManagedValue + "," + certrequest.PurposeLabel + "=" + certrequest.PurposeCertificate,
		Limit:         sweepPage,
	}
	for {
		list, err := client.List(ctx, options)
		if err != nil {
			return err
		}
		requested := m.requestedSecrets()
		for i := range list.Items {
			item := &list.Items[i].ObjectMeta
			ref := snapshot.Ref{Kind: snapshot.Secret, Namespace: item.Namespace, Name: item.Name}
			if err := m.sweepCertificate(ctx, item, requested[ref]); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return fmt.Errorf("%s: %w", ref, err)
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}

// sweepCertificate marks, unmarks or deletes one certificate.
func (m *Manager) sweepCertificate(ctx context.Context, item *metav1.ObjectMeta, requested bool) error {
	if item.Annotations[ownerAnnotation] != m.options.Owner || !hasDerivedName(item) {
		return nil
	}
	since, err := time.Parse(time.RFC3339, item.Annotations[unusedAnnotation])
	marked := err == nil
	switch {
	case requested && marked:
		return m.setUnusedSince(ctx, item, "")
	case requested:
		return nil
	case !marked:
		return m.setUnusedSince(ctx, item, time.Now().UTC().Format(time.RFC3339))
	case time.Since(since) < m.timing.keepUnused:
		return nil
	}
	err = m.cluster.Client.CoreV1().Secrets(item.Namespace).Delete(ctx, item.Name, metav1.DeleteOptions{
		// A Secret that was changed meanwhile may be in use again.
		Preconditions: &metav1.Preconditions{UID: &item.UID, ResourceVersion: &item.ResourceVersion},
	})
	if err == nil {
		m.log.Info("deleted unused certificate", "secret", item.Namespace+"/"+item.Name)
	}
	return err
}

// setUnusedSince writes since when a certificate is unused; an empty time removes
// the mark.
func (m *Manager) setUnusedSince(ctx context.Context, item *metav1.ObjectMeta, since string) error {
	client := m.cluster.Client.CoreV1().Secrets(item.Namespace)
	found, err := client.Get(ctx, item.Name, metav1.GetOptions{})
	if err != nil || found.ResourceVersion != item.ResourceVersion {
		return err // changed since it was listed: the next sweep sees it
	}
	next := found.DeepCopy()
	delete(next.Annotations, unusedAnnotation)
	if since != "" {
		next.Annotations[unusedAnnotation] = since
	}
	_, err = client.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// hasDerivedName reports whether the name of a Secret follows from its annotations.
// One that was copied under another name is not ours to delete.
func hasDerivedName(item *metav1.ObjectMeta) bool {
	return item.Name == certrequest.SecretName(item.Annotations[certrequest.ResolverAnnotation], strings.Split(item.Annotations[certrequest.HostsAnnotation], ","))
}
