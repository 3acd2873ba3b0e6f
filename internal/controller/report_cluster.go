package controller

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

const (
	// pageSize is the number of objects of a request, so that no response is large.
	pageSize = 500
	// maxListed bounds the objects of a kind.
	maxListed = 200_000
)

// readCluster lists the kinds that routes depend on, with the permissions of the user.
// Nothing is watched. Of Secrets only the names are read. A kind that may not be listed
// is noted, and one that the cluster does not have is skipped.
func (r *reporting) readCluster(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	data, err := placeholderData()
	if err != nil {
		return err
	}
	r.facts = snapshot.New()
	for _, kind := range snapshot.CustomKinds() {
		r.facts.SetKind(kind, snapshot.KindKnown)
	}
	for _, listed := range r.listings(data) {
		if err := r.list(ctx, listed); err != nil {
			return err
		}
	}
	if r.isUnread(snapshot.Ingress) && r.isUnread(snapshot.IngressRoute) {
		return errNoIngresses
	}
	return nil
}

// listing is a kind to list. page lists one page, puts its objects into the snapshot, and
// returns their number and the position of the next page.
type listing struct {
	kind snapshot.Kind
	page func(context.Context, metav1.ListOptions) (count int, next string, err error)
}

// listings returns the kinds.
func (r *reporting) listings(data map[string][]byte) []listing {
	client, namespace := r.Cluster.Client, r.Namespace
	all := []listing{
		{snapshot.IngressClass, func(ctx context.Context, options metav1.ListOptions) (int, string, error) {
			return putPage(r, func() (*listPage, error) {
				found, err := client.NetworkingV1().IngressClasses().List(ctx, options)
				if err != nil {
					return nil, err
				}
				return pageOf(found.Continue, len(found.Items), func(i int) any { return &found.Items[i] }), nil
			})
		}},
		{snapshot.Ingress, func(ctx context.Context, options metav1.ListOptions) (int, string, error) {
			return putPage(r, func() (*listPage, error) {
				found, err := client.NetworkingV1().Ingresses(namespace).List(ctx, options)
				if err != nil {
					return nil, err
				}
				return pageOf(found.Continue, len(found.Items), func(i int) any { return &found.Items[i] }), nil
			})
		}},
		{snapshot.Service, func(ctx context.Context, options metav1.ListOptions) (int, string, error) {
			return putPage(r, func() (*listPage, error) {
				found, err := client.CoreV1().Services(namespace).List(ctx, options)
				if err != nil {
					return nil, err
				}
				return pageOf(found.Continue, len(found.Items), func(i int) any { return &found.Items[i] }), nil
			})
		}},
		{snapshot.Secret, func(ctx context.Context, options metav1.ListOptions) (int, string, error) {
			return putPage(r, func() (*listPage, error) {
				found, err := r.Cluster.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace).List(ctx, options)
				if err != nil {
					return nil, err
				}
				return pageOf(found.Continue, len(found.Items), func(i int) any {
					return &snapshot.SecretBody{Namespace: found.Items[i].Namespace, Name: found.Items[i].Name, Type: string(corev1.SecretTypeTLS), Data: data}
				}), nil
			})
		}},
	}
	for _, kind := range snapshot.CustomKinds() {
		all = append(all, r.customListing(kind))
	}
	return all
}

// customListing returns the listing of a custom kind.
func (r *reporting) customListing(kind snapshot.Kind) listing {
	resource := schema.GroupVersionResource{Group: "slipway.dev", Version: "v1alpha1"}
	if group, name, known := snapshot.TraefikResource(kind); known {
		resource.Group, resource.Resource = group, name
	} else {
		resource.Resource = map[snapshot.Kind]string{
			snapshot.Middleware: "middlewares", snapshot.TLSOption: "tlsoptions", snapshot.BackendTransport: "backendtransports",
		}[kind]
	}
	return listing{kind, func(ctx context.Context, options metav1.ListOptions) (int, string, error) {
		return putPage(r, func() (*listPage, error) {
			found, err := r.Cluster.Dynamic.Resource(resource).Namespace(r.Namespace).List(ctx, options)
			if err != nil {
				return nil, err
			}
			return pageOf(found.GetContinue(), len(found.Items), func(i int) any { return resourceOf(kind, &found.Items[i]) }), nil
		})
	}}
}

// resourceOf returns an object of a custom kind as it is in a snapshot.
func resourceOf(kind snapshot.Kind, object *unstructured.Unstructured) *snapshot.Resource {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	return &snapshot.Resource{
		Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), Version: object.GetResourceVersion(),
		Created: object.GetCreationTimestamp().Time, Annotations: maps.Clone(object.GetAnnotations()), Spec: spec,
	}
}

// listPage is a page of objects.
type listPage struct {
	next  string
	count int
	at    func(int) any
}

func pageOf(next string, count int, at func(int) any) *listPage { return &listPage{next, count, at} }

// putPage puts the objects of a page into the snapshot.
func putPage(r *reporting, read func() (*listPage, error)) (count int, next string, err error) {
	page, err := read()
	if err != nil {
		return 0, "", err
	}
	for i := range page.count {
		r.facts.Put(page.at(i))
	}
	return page.count, page.next, nil
}

// list lists a kind page by page.
func (r *reporting) list(ctx context.Context, of listing) error {
	options := metav1.ListOptions{Limit: pageSize}
	for total := 0; ; {
		count, next, err := of.page(ctx, options)
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
			r.result.Unread = append(r.result.Unread, UnreadKind{Kind: string(of.kind), Reason: err.Error()})
			if of.kind.Custom() {
				r.facts.SetKind(of.kind, snapshot.KindForbidden)
			}
			return nil
		case apierrors.IsNotFound(err):
			r.facts.SetKind(of.kind, snapshot.KindMissing)
			return nil
		case err != nil:
			return fmt.Errorf("list %s: %w", of.kind, err)
		}
		if total += count; total > maxListed {
			return fmt.Errorf("the cluster has more than %d objects of kind %s: report one namespace with --namespace", maxListed, of.kind)
		}
		if next == "" {
			return nil
		}
		options.Continue = next
	}
}
