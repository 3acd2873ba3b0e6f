package progressive

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	argo "slipway.dev/slipway/api/argo/v1alpha1"
)

// maxNamespaces bounds the namespaces of an Application that are searched for
// releases: each is two requests to the API server.
const maxNamespaces = 16

// Deployments is the kind of the workloads of Releases.
var Deployments = schema.GroupKind{Group: "apps", Kind: "Deployment"}

// Candidates returns the releases that an Application with these resources may
// have, and the namespaces to list: a Release has the name of its Deployment.
func Candidates(resources []argo.ResourceStatus) (map[ID]bool, []string) {
	found := map[ID]bool{}
	var namespaces []string
	for i := range resources {
		resource := &resources[i]
		var kind Kind
		switch (schema.GroupKind{Group: resource.Group, Kind: resource.Kind}) {
		case Deployments:
			kind = KindRelease
		case schema.GroupKind{Group: KindRollout.Resource().Group, Kind: string(KindRollout)}:
			kind = KindRollout
		default:
			continue
		}
		if !slices.Contains(namespaces, resource.Namespace) {
			if len(namespaces) == maxNamespaces {
				continue
			}
			namespaces = append(namespaces, resource.Namespace)
		}
		found[ID{kind, resource.Namespace, resource.Name}] = true
	}
	return found, namespaces
}
