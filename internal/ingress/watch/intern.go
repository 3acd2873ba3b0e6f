package watch

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/cache"
)

const (
	// maxAnnotations bounds the bytes of annotations that are interned, and maxSets how many
	// of them are remembered.
	maxAnnotations = 2048
	maxSets        = 256
	// maxPart is the longest part of a route that is interned, as text.
	maxPart = 1024
)

// interner makes equal texts and equal parts of objects share their memory: thousands of
// routes repeat the same groups, kinds, Gateways, namespaces and conditions.
type interner struct {
	texts cache.Texts
	// sets are annotations by their text.
	sets map[string]map[string]string
	// parents, statuses and matches are parts of routes by their text.
	parents  map[string][]gatewayv1.ParentReference
	statuses map[string][]gatewayv1.RouteParentStatus
	matches  map[string][]gatewayv1.HTTPRouteMatch
}

// metadata interns the namespace and the annotations of an object. Ingresses of one author
// mostly have the same annotations, so these are one map, which must not be changed.
func (i *interner) metadata(of *metav1.ObjectMeta) {
	of.Namespace = i.texts.One(of.Namespace)
	if len(of.Annotations) == 0 {
		return
	}
	size := 0
	for name, value := range of.Annotations {
		size += len(name) + len(value) + len("=;")
	}
	if size > maxAnnotations {
		return
	}
	text := make([]byte, 0, size)
	for _, name := range slices.Sorted(maps.Keys(of.Annotations)) {
		text = append(text, name...)
		text = append(text, '=') // no name has one
		text = strconv.AppendQuote(text, of.Annotations[name])
	}
	if known, found := i.sets[string(text)]; found {
		of.Annotations = known
		return
	}
	if i.sets == nil || len(i.sets) >= maxSets {
		i.sets = map[string]map[string]string{}
	}
	i.sets[string(text)] = of.Annotations
}

// object interns the texts of spec and status. Those of the metadata are mostly unique.
func (i *interner) object(content map[string]any) {
	for _, field := range []string{"spec", "status"} {
		if value, has := content[field]; has {
			content[field] = i.texts.Value(value)
		}
	}
}

// route interns parts of a decoded route, whose content is that of the object: the routes
// of one Gateway mostly have the same parents, with the same status, and match the same
// paths. These parts must not be changed.
func (i *interner) route(decoded any, content map[string]any) {
	spec, _ := content["spec"].(map[string]any)
	status, _ := content["status"].(map[string]any)
	refs, parents := partsOf(decoded)
	if refs == nil {
		return
	}
	*refs = shared(&i.parents, spec["parentRefs"], *refs)
	*parents = shared(&i.statuses, status["parents"], *parents)
	rules, _ := spec["rules"].([]any)
	if object, http := decoded.(*gatewayv1.HTTPRoute); http && len(object.Spec.Rules) == len(rules) {
		for at := range rules {
			rule, _ := rules[at].(map[string]any)
			object.Spec.Rules[at].Matches = shared(&i.matches, rule["matches"], object.Spec.Rules[at].Matches)
		}
	}
}

// partsOf returns the parents of a route and their status; nil for other objects.
func partsOf(decoded any) (*[]gatewayv1.ParentReference, *[]gatewayv1.RouteParentStatus) {
	switch o := decoded.(type) {
	case *gatewayv1.HTTPRoute:
		return &o.Spec.ParentRefs, &o.Status.Parents
	case *gatewayv1.GRPCRoute:
		return &o.Spec.ParentRefs, &o.Status.Parents
	case *gatewayv1.TLSRoute:
		return &o.Spec.ParentRefs, &o.Status.Parents
	case *gatewayv1.TCPRoute:
		return &o.Spec.ParentRefs, &o.Status.Parents
	case *gatewayv1.UDPRoute:
		return &o.Spec.ParentRefs, &o.Status.Parents
	}
	return nil, nil
}

// shared returns the first decoded list of equal sources.
func shared[T any](known *map[string][]T, source any, decoded []T) []T {
	if len(decoded) == 0 {
		return decoded
	}
	text, err := json.Marshal(source)
	if err != nil || len(text) > maxPart {
		return decoded
	}
	if same, found := (*known)[string(text)]; found {
		return same
	}
	if *known == nil || len(*known) >= maxSets {
		*known = map[string][]T{}
	}
	decoded = slices.Clip(decoded)
	(*known)[string(text)] = decoded
	return decoded
}
