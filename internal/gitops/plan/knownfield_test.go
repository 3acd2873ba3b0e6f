package plan_test

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/must"
)

// machineOf is an object of a kind with a field of its spec.
func machineOf(kind string, size any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": kind, "spec": map[string]any{"size": size}}}
}

// Known fields are compared in the notation of their type, in lists too; values
// that are not of the type, and fields of other kinds, as they are.
func TestEqualize(t *testing.T) {
	field := plan.KnownField{Kind: schema.GroupKind{Group: "example.com", Kind: "Machine"}, Path: []string{"spec", "size"}, New: func() any { return &resource.Quantity{} }}
	known := must.Get(plan.NewIgnore(nil, nil))(t).WithKnownFields([]plan.KnownField{field})
	for _, tt := range []struct {
		kind        string
		live, other any
		same        bool
	}{
		{"Machine", "1", "1000m", true},
		{"Machine", []any{"1", "x"}, []any{"1000m", "x"}, true},
		{"Machine", []any{"1", "x"}, []any{"1000m", "y"}, false},
		{"Machine", "1", "2", false},
		{"Machine", "big", "large", false},
		{"Machine", nil, nil, true},
		{"Machine", map[string]any{"a": "1"}, map[string]any{"a": "1000m"}, false},
		{"Engine", "1", "1000m", false},
	} {
		live, other := machineOf(tt.kind, tt.live), machineOf(tt.kind, tt.other)
		if known.Equalize(live, other); reflect.DeepEqual(live.Object, other.Object) != tt.same {
			t.Errorf("%s %v and %v are %v and %v", tt.kind, tt.live, tt.other, live.Object, other.Object)
		}
	}
	missing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Machine", "spec": "text"}}
	known.Equalize(missing, machineOf("Machine", "1"))
	if missing.Object["spec"] != "text" {
		t.Errorf("it became %v", missing.Object)
	}
	missing.Object["spec"] = map[string]any{"other": "1"}
	known.Equalize(missing, machineOf("Machine", "1"))
	if !reflect.DeepEqual(missing.Object["spec"], map[string]any{"other": "1"}) {
		t.Errorf("it became %v", missing.Object)
	}
	var none *plan.Ignore
	none.WithKnownFields([]plan.KnownField{field}).Equalize(missing, missing)
}

// A pointer behind the end of a list points to nothing.
func TestPointerBehindTheEnd(t *testing.T) {
	for pointer, want := range map[string]int{"/spec/size/0": 1, "/spec/size/1": 1, "/spec/size/2": 2, "/spec/size/-": 2} {
		ignore := must.Get(plan.NewIgnore([]v1alpha1.ResourceIgnoreDifferences{{Group: "*", Kind: "*", JSONPointers: []string{pointer}}}, nil))(t)
		live := machineOf("Machine", []any{"a", "b"})
		ignore.Strip(live, machineOf("Machine", nil))
		if left, _, _ := unstructured.NestedSlice(live.Object, "spec", "size"); len(left) != want {
			t.Errorf("%s leaves %v", pointer, left)
		}
	}
}
