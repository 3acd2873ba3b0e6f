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
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/wish"
	"slipway.dev/slipway/internal/observe"
)

// sweepPage is how many Secrets are listed at a time.
const sweepPage = 500

// sweepAll looks again and again for what nobody needs any more.
func (m *Manager) sweepAll(ctx context.Context) {
	for {
		if err := m.sweepChallenges(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("challenges that were left behind are still there", observe.KeyError, err)
		}
		scopes := m.options.Namespaces
		if len(scopes) == 0 {
			scopes = []string{""}
		}
		for _, namespace := range scopes {
			if err := m.sweepCertificates(ctx, namespace); err != nil && ctx.Err() == nil {
				m.log.Warn("certificates that nobody wishes for are still there", "namespace", namespace, observe.KeyError, err)
			}
		}
		if backoff.Sleep(ctx, jittered(m.pace.sweep)) != nil {
			return
		}
	}
}

// sweepChallenges removes what orders that did not end left behind.
func (m *Manager) sweepChallenges(ctx context.Context) error {
	now := time.Now()
	return m.post(ctx, func(entries map[string][]byte) {
		for token, value := range entries {
			entry, err := wish.DecodeChallenge(value)
			if err != nil || now.Sub(entry.Created) > m.pace.left {
				delete(entries, token)
			}
		}
	})
}

// sweepCertificates marks certificates that nobody wishes for, and deletes those
// that were marked long ago.
func (m *Manager) sweepCertificates(ctx context.Context, namespace string) error {
	client := m.cluster.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
	options := metav1.ListOptions{
		LabelSelector: wish.ManagedLabel + "=" + wish.ManagedValue + "," + wish.PurposeLabel + "=" + wish.PurposeCertificate,
		Limit:         sweepPage,
	}
	for {
		list, err := client.List(ctx, options)
		if err != nil {
			return err
		}
		wished := m.wished()
		for i := range list.Items {
			item := &list.Items[i].ObjectMeta
			ref := snapshot.Ref{Kind: snapshot.Secret, Namespace: item.Namespace, Name: item.Name}
			if err := m.judge(ctx, item, wished[ref]); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return fmt.Errorf("%s: %w", ref, err)
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}

// judge does with one certificate what has to be done.
func (m *Manager) judge(ctx context.Context, item *metav1.ObjectMeta, wished bool) error {
	if item.Annotations[ownerAnnotation] != m.options.Owner || !named(item) {
		return nil
	}
	since, err := time.Parse(time.RFC3339, item.Annotations[unwishedAnnotation])
	marked := err == nil
	switch {
	case wished && marked:
		return m.mark(ctx, item, "")
	case wished:
		return nil
	case !marked:
		return m.mark(ctx, item, time.Now().UTC().Format(time.RFC3339))
	case time.Since(since) < m.pace.keep:
		return nil
	}
	err = m.cluster.Client.CoreV1().Secrets(item.Namespace).Delete(ctx, item.Name, metav1.DeleteOptions{
		// Whoever changed it meanwhile may have a use for it.
		Preconditions: &metav1.Preconditions{UID: &item.UID, ResourceVersion: &item.ResourceVersion},
	})
	if err == nil {
		m.log.Info("a certificate that nobody wishes for was deleted", "secret", item.Namespace+"/"+item.Name)
	}
	return err
}

// mark notes since when nobody wishes for a certificate; an empty time takes
// that back.
func (m *Manager) mark(ctx context.Context, item *metav1.ObjectMeta, since string) error {
	client := m.cluster.Client.CoreV1().Secrets(item.Namespace)
	found, err := client.Get(ctx, item.Name, metav1.GetOptions{})
	if err != nil || found.ResourceVersion != item.ResourceVersion {
		return err // it is looked at again
	}
	next := found.DeepCopy()
	delete(next.Annotations, unwishedAnnotation)
	if since != "" {
		next.Annotations[unwishedAnnotation] = since
	}
	_, err = client.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// named reports whether the Secret has the name that follows from what it says
// of itself.
func named(item *metav1.ObjectMeta) bool {
	return item.Name == wish.SecretName(item.Annotations[wish.ResolverAnnotation], strings.Split(item.Annotations[wish.HostsAnnotation], ","))
}
