package manifest

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// takeGateway adds an object of Gateway API, and counts those of kinds and versions
// that the edge does not read. v1beta1 has the fields of v1.
func (s *Set) takeGateway(from source, document []byte, version string, kind snapshot.Kind) {
	object := snapshot.NewGatewayObject(kind)
	if object == nil || version != "v1" && version != "v1beta1" {
		s.Passed++
		return
	}
	takeObject(s, from, document, kind, object)
}

// clusterScoped reports whether objects of a kind have no namespace.
func clusterScoped(kind snapshot.Kind) bool {
	return kind == snapshot.IngressClass || kind == snapshot.GatewayClass || kind == snapshot.Namespace
}

// labelNamespaces gives each namespace the label with its name, as every API server
// does: listeners select namespaces by it.
func (s *Set) labelNamespaces() {
	view := s.Snapshot.View()
	for ref := range s.Files {
		name := ref.Namespace
		if ref.Kind == snapshot.Namespace {
			name = ref.Name
		}
		labels := map[string]string{corev1.LabelMetadataName: name}
		maps.Copy(labels, view.NamespaceLabels(name))
		s.Snapshot.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
}
