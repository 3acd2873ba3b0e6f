package watch

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// TestInterner: equal texts of two objects share their memory.
func TestInterner(t *testing.T) {
	object := func() map[string]any {
		text := func(of string) string { return strings.Clone(of) }
		return map[string]any{
			"metadata": map[string]any{"name": text("web")},
			"spec":     map[string]any{"parentRefs": []any{map[string]any{"name": text("public"), "port": int64(80)}}},
			"status":   map[string]any{"parents": []any{text("public")}},
		}
	}
	first, second, texts := object(), object(), &interner{}
	texts.object(first)
	texts.object(second)
	if fmt.Sprint(first) != fmt.Sprint(object()) {
		t.Errorf("the object became %v", first)
	}
	parent := func(of map[string]any) *byte {
		refs := of["spec"].(map[string]any)["parentRefs"].([]any)
		return unsafe.StringData(refs[0].(map[string]any)["name"].(string))
	}
	if parent(first) != parent(second) || parent(first) != unsafe.StringData(first["status"].(map[string]any)["parents"].([]any)[0].(string)) {
		t.Error("equal texts do not share their memory")
	}
}

// TestInternedAnnotations: objects with equal annotations share one map, and the number of
// maps that are remembered is bounded.
func TestInternedAnnotations(t *testing.T) {
	texts := &interner{}
	interned := func(annotations map[string]string) map[string]string {
		of := metav1.ObjectMeta{Namespace: "shop", Annotations: maps.Clone(annotations)}
		texts.metadata(&of)
		if !maps.Equal(of.Annotations, annotations) || of.Namespace != "shop" {
			t.Errorf("%v became %v", annotations, of)
		}
		return of.Annotations
	}
	same := func(a, b map[string]string) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
	first := map[string]string{"slipway.dev/a": "1", "slipway.dev/b": "2"}
	if !same(interned(first), interned(first)) {
		t.Error("equal annotations do not share their memory")
	}
	for _, other := range []map[string]string{{"slipway.dev/a": "1"}, {"slipway.dev/a": "1slipway.dev/b=2"}, {"slipway.dev/a": `1"slipway.dev/b="2`}} {
		if same(interned(first), interned(other)) {
			t.Errorf("%v shares the memory of %v", other, first)
		}
	}
	long := map[string]string{"slipway.dev/a": strings.Repeat("x", maxAnnotations)}
	if same(interned(long), interned(long)) {
		t.Error("long annotations are remembered")
	}
	for i := range 3 * maxSets {
		interned(map[string]string{"slipway.dev/a": fmt.Sprint(i)})
	}
	if len(texts.sets) > maxSets {
		t.Errorf("%d sets are remembered", len(texts.sets))
	}
}

// TestOurAnnotations: annotations of others are dropped, and a map without them is kept.
func TestOurAnnotations(t *testing.T) {
	ours := map[string]string{"slipway.dev/a": "1"}
	if kept := ourAnnotations(ours); reflect.ValueOf(kept).Pointer() != reflect.ValueOf(ours).Pointer() {
		t.Error("the map was copied")
	}
	mixed := map[string]string{"slipway.dev/a": "1", "other.example/b": "2"}
	if kept := ourAnnotations(mixed); !maps.Equal(kept, ours) || len(mixed) != 2 {
		t.Errorf("%v became %v", mixed, kept)
	}
	if kept := ourAnnotations(map[string]string{"other.example/b": "2"}); kept != nil {
		t.Errorf("%v is kept", kept)
	}
}

// TestRoutesShareParts: equal parents, statuses and matches of routes are one value, and
// others are not.
func TestRoutesShareParts(t *testing.T) {
	texts := &interner{}
	decoded := func(gateway, path, at string) *gatewayv1.HTTPRoute {
		object := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "a"},
			"spec": map[string]any{
				"parentRefs": []any{map[string]any{"name": gateway}},
				"rules":      []any{map[string]any{"matches": []any{map[string]any{"path": map[string]any{"type": "Exact", "value": path}}}}},
			},
			"status": map[string]any{"parents": []any{map[string]any{
				"parentRef": map[string]any{"name": gateway}, "controllerName": "example.com/c",
				"conditions": []any{map[string]any{"type": "Accepted", "status": "True", "lastTransitionTime": at, "reason": "Accepted", "message": ""}},
			}}},
		}}
		shaped := shape(snapshot.HTTPRoute, object)
		texts.route(shaped, object.Object)
		return shaped.(*gatewayv1.HTTPRoute)
	}
	const early, late = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
	first, same, other := decoded("one", "/a", early), decoded("one", "/a", early), decoded("two", "/b", late)
	if &first.Spec.ParentRefs[0] != &same.Spec.ParentRefs[0] || &first.Status.Parents[0] != &same.Status.Parents[0] ||
		&first.Spec.Rules[0].Matches[0] != &same.Spec.Rules[0].Matches[0] {
		t.Error("equal parts are not shared")
	}
	if other.Spec.ParentRefs[0].Name != "two" || *other.Spec.Rules[0].Matches[0].Path.Value != "/b" || other.Status.Parents[0].Conditions[0].LastTransitionTime.UTC().Format(time.RFC3339) != late {
		t.Errorf("a part of another route is shared: %+v", other)
	}
}
