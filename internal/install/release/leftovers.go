package release

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/kube"
)

// mostListed bounds one list of a leftovers report. Objects beyond it are not
// reported.
const mostListed = 1000

// Leftover is an object that an uninstall leaves.
type Leftover struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Why describes it and why it stays.
	Why string `json:"why"`
	// Command removes it.
	Command string `json:"command"`
	// Stuck is set for an object whose deletion does not finish.
	Stuck bool `json:"stuck,omitempty"`
}

// leftBehind collects the leftovers.
type leftBehind struct {
	client *Client
	all    []Leftover
	// others counts objects of the namespace that are not ours.
	others int
}

// Leftovers returns what is still in the cluster of the release, and what in
// its namespace belongs to it. What may not be read is an error beside what was
// found.
func (c *Client) Leftovers(ctx context.Context, definitions []string) ([]Leftover, error) {
	l := &leftBehind{client: c}
	// The cached discovery may be older than the uninstall.
	c.mapper.Reset()
	// The namespace comes last: it reports how many other objects inNamespace
	// has counted.
	problems := []error{l.definitions(ctx, definitions), l.inNamespace(ctx), l.outside(ctx), l.webhooks(ctx), l.namespace(ctx)}
	slices.SortStableFunc(l.all, func(a, b Leftover) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return l.all, joinShort(problems)
}

// joinShort joins errors into one line.
func joinShort(problems []error) error {
	var texts []string
	for _, problem := range problems {
		if problem != nil {
			texts = append(texts, problem.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return fmt.Errorf("the report is not complete: %s", strings.Join(texts, "; "))
}

// add adds an object, and marks one that is being deleted.
func (l *leftBehind) add(id ID, meta metav1.Object, why string) {
	left := Leftover{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name, Why: why, Command: id.deleteCommand()}
	finalizers := meta.GetFinalizers()
	switch {
	case meta.GetDeletionTimestamp() != nil && len(finalizers) > 0:
		left.Stuck, left.Command = true, id.freeCommand()
		left.Why = "it is being deleted and waits for " + strings.Join(finalizers, ", ") + ", and possibly no controller is left to do that"
	case meta.GetDeletionTimestamp() != nil:
		left.Why = "it is being deleted"
	case len(finalizers) > 0 && strings.HasPrefix(id.Group, "argoproj.io"):
		// No agent is left that would act on the finalizer, and the
		// deletion would never finish.
		left.Why, left.Command = why+"; its finalizer would block that, because no controller handles it any more", id.freeCommand()+" && "+id.deleteCommand()
	}
	l.all = append(l.all, left)
}

// definitions adds the CustomResourceDefinitions of the chart that are still in
// the cluster.
func (l *leftBehind) definitions(ctx context.Context, names []string) error {
	for _, name := range names {
		found, err := l.client.cluster.Metadata.Resource(kube.DefinitionResource()).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			continue // who may not read it cannot delete it either
		}
		if err != nil {
			return fmt.Errorf("read the CustomResourceDefinition %s: %w", name, err)
		}
		// A definition of another runtime in the cluster is in use.
		if marks := found.GetAnnotations(); found.GetLabels()[helmLabel] == helmManager && marks[helmRelease] != "" && !l.client.owns(found) {
			continue
		}
		why := "it stays, because deleting it deletes every object of its kind"
		if objects := l.objectsOf(ctx, name); objects > 0 {
			why = "it stays, because its " + finding.Count(objects, "object", "objects") + " would go with it"
		}
		l.add(ID{Group: kube.DefinitionResource().Group, Kind: crdKind, Name: name}, found, why)
	}
	return nil
}

// objectsOf counts the objects of a definition; 0 when they cannot be counted.
func (l *leftBehind) objectsOf(ctx context.Context, definition string) int {
	// A definition is named after its plural and its group.
	plural, group, _ := strings.Cut(definition, ".")
	resources, err := l.client.mapper.ResourcesFor(schema.GroupVersionResource{Group: group, Resource: plural})
	if err != nil || len(resources) == 0 {
		return 0
	}
	found, err := l.client.cluster.Metadata.Resource(resources[0]).List(ctx, metav1.ListOptions{Limit: mostListed})
	if err != nil {
		return 0
	}
	return len(found.Items)
}

// listable returns the kinds that can be listed and deleted.
func (l *leftBehind) listable(namespaced bool) ([]metav1.APIResource, error) {
	lists, err := l.client.cluster.Client.Discovery().ServerPreferredResources()
	// A broken aggregated API makes discovery incomplete, which must not hide
	// the other kinds.
	if err != nil && len(lists) == 0 {
		return nil, fmt.Errorf("discover the kinds of the cluster: %w", err)
	}
	matching := discovery.FilteredBy(discovery.ResourcePredicateFunc(func(_ string, r *metav1.APIResource) bool {
		return r.Namespaced == namespaced && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete")
	}), lists)
	var all []metav1.APIResource
	for _, list := range matching {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			resource.Group, resource.Version = version.Group, version.Version
			all = append(all, resource)
		}
	}
	return all, nil
}

// inNamespace adds what is in the namespace of the release.
func (l *leftBehind) inNamespace(ctx context.Context) error {
	kinds, err := l.listable(true)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		if kind.Kind == "Event" || kind.Kind == "EndpointSlice" || kind.Kind == "Endpoints" {
			continue // they go by themselves
		}
		// Only metadata is read: the report needs no content of Secrets.
		resource := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Name}
		found, err := l.client.cluster.Metadata.Resource(resource).Namespace(l.client.place.Namespace).List(ctx, metav1.ListOptions{Limit: mostListed})
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			// Kinds that the user may not list, or that cannot be listed, are
			// left out.
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s of the namespace %s: %w", kind.Name, l.client.place.Namespace, err)
		}
		for i := range found.Items {
			l.judge(ID{Group: kind.Group, Kind: kind.Kind, Namespace: found.Items[i].Namespace, Name: found.Items[i].Name}, &found.Items[i])
		}
	}
	return nil
}

// judge decides whether an object of the namespace belongs to the runtime.
func (l *leftBehind) judge(id ID, meta metav1.Object) {
	// The first case that matches gives the reason.
	switch {
	case id.Kind == "ConfigMap" && id.Name == "kube-root-ca.crt", id.Kind == "ServiceAccount" && id.Name == "default":
		return // every namespace has them
	case len(meta.GetOwnerReferences()) > 0 && meta.GetDeletionTimestamp() == nil:
		return // they go with their owner
	case id.Kind == "Application" && id.Group == "argoproj.io":
		l.add(id, meta, "what it has delivered stays, and so does it")
	case id.Group == "argoproj.io" || id.Group == "slipway.dev":
		l.add(id, meta, "it is a setting of a user's applications")
	case id.Kind == "PersistentVolumeClaim":
		l.add(id, meta, "it has data, which would be lost")
	case id.Kind == "Lease" && strings.HasPrefix(id.Name, leasePrefix):
		l.add(id, meta, "it names the last leader")
	case l.ours(id, meta):
		l.add(id, meta, whyKept(id))
	default:
		l.others++
	}
}

// ours reports whether a release, the command line or the runtime created an
// object.
func (l *leftBehind) ours(id ID, meta metav1.Object) bool {
	// The chart labels its objects with the release.
	labels := meta.GetLabels()
	if labels["app.kubernetes.io/instance"] == l.client.place.Release && labels["app.kubernetes.io/part-of"] == "slipway" {
		return true
	}
	// Secrets beside the release have a label, and objects of the agent a name
	// with this prefix. Helm labels its records of revisions.
	if labels[helmLabel] == ownManager || strings.HasPrefix(id.Name, "slipway-") || labels["owner"] == "helm" && labels["name"] == l.client.place.Release {
		return true
	}
	for label := range labels {
		if domain, _, _ := strings.Cut(label, "/"); domain == "slipway.dev" || domain == "argocd.argoproj.io" {
			return true
		}
	}
	return false
}

// whyKept explains why an uninstall keeps an object.
func whyKept(id ID) string {
	switch id.Kind {
	case "Secret":
		return "the runtime or a person put credentials into it"
	case "ConfigMap":
		return "the runtime or a person put settings into it"
	}
	return "it was made for the runtime and not by its chart"
}

// outside adds cluster-scoped objects of the release.
func (l *leftBehind) outside(ctx context.Context) error {
	// The chart puts the namespace into the names of cluster-scoped objects, so
	// that several runtimes can share a cluster.
	prefix := "slipway:" + l.client.place.Namespace + ":"
	kinds, err := l.listable(false)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		if kind.Kind == crdKind || kind.Kind == "Namespace" || kind.Kind == "Node" {
			// Definitions and the namespace are reported separately, and Nodes
			// never belong to a release.
			continue
		}
		resource := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Name}
		found, err := l.client.cluster.Metadata.Resource(resource).List(ctx, metav1.ListOptions{Limit: mostListed})
		if err != nil {
			continue // most people may not list everything; what they may not list they cannot delete
		}
		for i := range found.Items {
			one := &found.Items[i]
			if strings.HasPrefix(one.Name, prefix) || l.client.owns(one) {
				l.add(ID{Group: kind.Group, Kind: kind.Kind, Name: one.Name}, one, "it was made for the release")
			}
		}
	}
	return nil
}

// webhooks adds admission webhooks that call into the namespace: with the
// runtime gone they fail every request that they match.
func (l *leftBehind) webhooks(ctx context.Context) error {
	admission := l.client.cluster.Client.AdmissionregistrationV1()
	validating, err := admission.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{Limit: mostListed})
	if err != nil {
		return ignoreForbidden(err)
	}
	for i := range validating.Items {
		one := &validating.Items[i]
		if slices.ContainsFunc(one.Webhooks, func(w admissionv1.ValidatingWebhook) bool { return l.leadsHere(w.ClientConfig) }) {
			l.add(ID{Group: admissionv1.GroupName, Kind: "ValidatingWebhookConfiguration", Name: one.Name}, one, "it routes to a Service of the namespace, which no longer responds")
		}
	}
	mutating, err := admission.MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{Limit: mostListed})
	if err != nil {
		return ignoreForbidden(err)
	}
	for i := range mutating.Items {
		one := &mutating.Items[i]
		if slices.ContainsFunc(one.Webhooks, func(w admissionv1.MutatingWebhook) bool { return l.leadsHere(w.ClientConfig) }) {
			l.add(ID{Group: admissionv1.GroupName, Kind: "MutatingWebhookConfiguration", Name: one.Name}, one, "it routes to a Service of the namespace, which no longer responds")
		}
	}
	return nil
}

// leadsHere reports whether a webhook calls into the namespace.
func (l *leftBehind) leadsHere(config admissionv1.WebhookClientConfig) bool {
	return config.Service != nil && config.Service.Namespace == l.client.place.Namespace
}

// ignoreForbidden drops the error for what most users may not read.
func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// namespace adds the namespace itself. It is never deleted, because it may have
// objects of others.
func (l *leftBehind) namespace(ctx context.Context) error {
	name := l.client.place.Namespace
	found, err := l.client.cluster.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return ignoreForbidden(err)
	}
	why := "it stays: it may still be in use"
	if l.others > 0 {
		why = "it stays: it has " + finding.Count(l.others, "other object", "other objects")
	}
	l.add(ID{Kind: "Namespace", Name: name}, found, why)
	return nil
}
