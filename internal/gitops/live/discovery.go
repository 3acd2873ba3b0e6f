package live

import (
	"context"
	"errors"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"

	"slipway.dev/slipway/internal/kube"
)

// directory is the result of one discovery. It is never changed after it is
// made, so that readers need no lock.
type directory struct {
	kinds map[schema.GroupKind]*entry
	// broken are groups of which a version does not respond.
	broken map[string]error
	server string
	// apis are sorted.
	apis []string
}

// discoverer reads discovery: two requests for the kinds, where the API server
// has aggregated discovery, and one for its version. A group whose aggregated
// API server is down does not fail it.
func discoverer(cluster *kube.Cluster) func(context.Context, *directory) (*directory, error) {
	return func(ctx context.Context, before *directory) (*directory, error) {
		client := discovery.ToDiscoveryInterfaceWithContext(cluster.Client.Discovery())
		server, err := client.ServerVersionWithContext(ctx)
		if err != nil {
			return nil, err
		}
		groups, lists, err := discovery.ServerGroupsAndResourcesWithContext(ctx, client)
		broken, partly := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err)
		if err != nil && !partly {
			return nil, err
		}
		found := &directory{kinds: map[schema.GroupKind]*entry{}, broken: map[string]error{}, server: server.GitVersion}
		found.fill(groups, lists)
		if partly {
			found.keep(before, broken.Groups)
		}
		found.apis = found.spell()
		return found, nil
	}
}

// fill takes the kinds, in each group the preferred version first.
func (d *directory) fill(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) {
	byVersion := map[string]*metav1.APIResourceList{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list
	}
	for _, group := range groups {
		order := []string{group.PreferredVersion.GroupVersion}
		for _, version := range group.Versions {
			if version.GroupVersion != order[0] {
				order = append(order, version.GroupVersion)
			}
		}
		for _, version := range order {
			if list := byVersion[version]; list != nil {
				d.add(list)
			}
		}
	}
}

// add takes the kinds of one group version. Subresources are no kinds of their
// own.
func (d *directory) add(list *metav1.APIResourceList) {
	at, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return
	}
	for _, resource := range list.APIResources {
		if resource.Kind == "" || isSubresource(resource.Name) {
			continue
		}
		kind := schema.GroupKind{Group: at.Group, Kind: resource.Kind}
		known := d.kinds[kind]
		if known == nil {
			known = &entry{namespaced: resource.Namespaced}
			d.kinds[kind] = known
		}
		if known.version(at.Version) == nil {
			known.versions = append(known.versions, servedVersion{
				name: at.Version, resource: resource.Name,
				followed: slices.Contains(resource.Verbs, "list") && slices.Contains(resource.Verbs, "watch"),
			})
		}
	}
}

// isSubresource reports whether a resource is a part of another, such as
// pods/log.
func isSubresource(name string) bool {
	return slices.Contains([]byte(name), '/')
}

// keep takes over from an older discovery what a group has that does not
// respond now: an aggregated API server that restarts has not lost its kinds.
func (d *directory) keep(before *directory, broken map[schema.GroupVersion]error) {
	for version, err := range broken {
		d.broken[version.Group] = err
		if before == nil {
			continue
		}
		for kind, known := range before.kinds {
			if kind.Group == version.Group && d.kinds[kind] == nil {
				d.kinds[kind] = known
			}
		}
	}
}

// with is the directory with some kinds more. It copies the map, because
// readers use the old directory without a lock.
func (d *directory) with(more map[schema.GroupKind]*entry) *directory {
	if len(more) == 0 {
		return d
	}
	all := *d
	all.kinds = maps.Clone(d.kinds)
	maps.Copy(all.kinds, more)
	all.apis = all.spell()
	return &all
}

// spell lists what is served: v1, apps/v1, apps/v1/Deployment.
func (d *directory) spell() []string {
	set := map[string]bool{}
	for kind, known := range d.kinds {
		for _, served := range known.versions {
			version := schema.GroupVersion{Group: kind.Group, Version: served.name}.String()
			set[version] = true
			set[version+"/"+kind.Kind] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// definedBy reads a CustomResourceDefinition that is established: before that,
// the API server does not serve the kind.
func definedBy(definition *unstructured.Unstructured) (schema.GroupKind, *entry, bool) {
	if kind := definition.GroupVersionKind().GroupKind(); !isDefinition(kind) || !established(definition) {
		return schema.GroupKind{}, nil, false
	}
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(definition.Object, fields...)
		return value
	}
	kind := schema.GroupKind{Group: text("spec", "group"), Kind: text("spec", "names", "kind")}
	defined := &entry{namespaced: text("spec", "scope") == "Namespaced"}
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, each := range versions {
		fields, _ := each.(map[string]any)
		name, _ := fields["name"].(string)
		if served, _ := fields["served"].(bool); served && name != "" {
			defined.versions = append(defined.versions, servedVersion{name: name, resource: text("spec", "names", "plural"), followed: true})
		}
	}
	// As the API server prefers them.
	slices.SortFunc(defined.versions, func(a, b servedVersion) int { return -version.CompareKubeAwareVersionStrings(a.name, b.name) })
	return kind, defined, kind.Group != "" && kind.Kind != "" && len(defined.versions) > 0
}

// isDefinition reports whether a kind is that of CustomResourceDefinitions, in
// any version.
func isDefinition(kind schema.GroupKind) bool {
	return kind.Group == "apiextensions.k8s.io" && kind.Kind == "CustomResourceDefinition"
}

// established reports whether the API server serves a definition already:
// before that, requests for its objects are not found.
func established(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(condition any) bool {
		fields, _ := condition.(map[string]any)
		return fields["type"] == "Established" && fields["status"] == "True"
	})
}
