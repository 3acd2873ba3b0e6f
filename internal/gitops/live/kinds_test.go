package live_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

func TestKinds(t *testing.T) {
	sent := &kubetest.Gate{}
	kinds := live.NewKinds(connect(t, kubetest.Shared(t), sent.Option))
	for _, tt := range []struct {
		kind  schema.GroupKind
		scope plan.Scope
	}{
		{deployments, plan.NamespaceScope},
		{configMaps, plan.NamespaceScope},
		{schema.GroupKind{Kind: "Namespace"}, plan.ClusterScope},
		{roles, plan.ClusterScope},
		{schema.GroupKind{Group: "example.test", Kind: "Nothing"}, plan.UnknownScope},
	} {
		if scope := kinds.Scope(tt.kind); scope != tt.scope {
			t.Errorf("the scope of %s is %d, want %d", tt.kind, scope, tt.scope)
		}
	}
	if asked := sent.Requests("/api"); len(asked) != 2 {
		t.Errorf("discovery took %q, want two requests", asked)
	}
	version, apis, err := kinds.Version(t.Context())
	if err != nil || !strings.HasPrefix(version, "v1.") {
		t.Errorf("the version is %q, %v", version, err)
	}
	for _, api := range []string{"v1", "apps/v1", "apps/v1/Deployment", "v1/ConfigMap", "networking.k8s.io/v1/Ingress"} {
		if _, found := slices.BinarySearch(apis, api); !found {
			t.Errorf("%s is not among %q", api, apis)
		}
	}
	if len(sent.Requests()) != 3 {
		t.Errorf("sent %q, want three requests for all of it", sent.Requests())
	}
}

func TestMappings(t *testing.T) {
	kinds := live.NewKinds(connect(t, kubetest.Shared(t)))
	for _, tt := range []struct{ version, namespace, name, want string }{
		{"apps/v1 Deployment", "shop", "web", "/apis/apps/v1/namespaces/shop/deployments/web"},
		{"v1 ConfigMap", "shop", "", "/api/v1/namespaces/shop/configmaps"},
		{"v1 ConfigMap", "", "", "/api/v1/configmaps"},
		{"v1 Namespace", "", "shop", "/api/v1/namespaces/shop"},
		{"autoscaling/v1 HorizontalPodAutoscaler", "shop", "web", "/apis/autoscaling/v1/namespaces/shop/horizontalpodautoscalers/web"},
		{"autoscaling/ HorizontalPodAutoscaler", "shop", "web", "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web"},
		{"autoscaling/v2beta2 HorizontalPodAutoscaler", "", "", "does not have the kind HorizontalPodAutoscaler.autoscaling in version v2beta2: use v2 or v1"},
		{"example.test/v1 Nothing", "", "", "does not have the kind Nothing.example.test: install"},
		{"v1 ConfigMap", "shop", "../../../kube-system/secrets/token", "is no name"},
		{"v1 ConfigMap", "..", "web", "is no name"},
	} {
		t.Run(tt.version+" "+tt.namespace+"/"+tt.name, func(t *testing.T) {
			version, kind, _ := strings.Cut(tt.version, " ")
			group, number, cut := strings.Cut(version, "/")
			if !cut {
				group, number = "", version
			}
			mapping, err := kinds.Mapping(t.Context(), schema.GroupVersionKind{Group: group, Version: number, Kind: kind})
			got := ""
			if err == nil {
				got, err = mapping.Path(tt.namespace, tt.name)
			}
			if err != nil {
				got = err.Error()
			}
			if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// A kind that is not known is asked for once, by however many.
func TestUnknownKindIsAskedForOnce(t *testing.T) {
	sent := &kubetest.Gate{}
	kinds := live.NewKinds(connect(t, kubetest.Shared(t), sent.Option))
	var clock struct {
		sync.Mutex
		time.Time
	}
	clock.Time = time.Now()
	kinds.At(func() time.Time {
		clock.Lock()
		defer clock.Unlock()
		return clock.Time
	})
	ask := func() {
		var asking sync.WaitGroup
		for range 50 {
			asking.Go(func() {
				if scope := kinds.Scope(schema.GroupKind{Group: "example.test", Kind: "Nothing"}); scope != plan.UnknownScope {
					t.Errorf("the scope is %d", scope)
				}
			})
		}
		asking.Wait()
	}
	for _, step := range []struct {
		later time.Duration
		tell  bool
		want  int
	}{{0, false, 1}, {time.Second, false, 1}, {5 * time.Second, false, 2}, {time.Second, true, 3}, {time.Second, false, 3}} {
		clock.Lock()
		clock.Time = clock.Add(step.later)
		clock.Unlock()
		if step.tell {
			kinds.Invalidate()
		}
		ask()
		if asked := len(sent.Requests("GET /apis")); asked != step.want {
			t.Errorf("after %+v there were %d discoveries, want %d", step, asked, step.want)
		}
	}
}

const gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}
  versions:
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// define makes a kind Gadget of a group, and gives its definition when it is
// established.
func define(t *testing.T, cluster *kubetest.Cluster, group string) *unstructured.Unstructured {
	t.Helper()
	made := cluster.Define(t, strings.ReplaceAll(gadgets, "GROUP", group))
	return must.Get(cluster.Dynamic.Resource(kube.DefinitionResource()).Get(t.Context(), made[0].GetName(), metav1.GetOptions{}))(t)
}

// The kind of a definition is known without a request, in the order of versions
// that discovery has.
func TestKindsLearn(t *testing.T) {
	cluster := kubetest.Shared(t)
	sent := &kubetest.Gate{}
	kinds := live.NewKinds(connect(t, cluster, sent.Option))
	gadget := schema.GroupVersionKind{Group: cluster.Namespace(t) + ".example.test", Kind: "Gadget"}
	if _, err := kinds.Mapping(t.Context(), gadget); !live.IsUnknownKind(err) {
		t.Fatalf("got %v, want that the kind is unknown", err)
	}
	definition := define(t, cluster, gadget.Group)
	before := len(sent.Requests())
	kinds.Learn(definition)
	mapping, err := kinds.Mapping(t.Context(), gadget)
	if err != nil || mapping.Resource.Version != "v1" || mapping.Resource.Resource != "gadgets" || !mapping.Namespaced {
		t.Errorf("got %+v, %v", mapping, err)
	}
	_, apis, err := kinds.Version(t.Context())
	if err != nil || !slices.Contains(apis, gadget.Group+"/v1beta1/Gadget") {
		t.Errorf("got %q, %v", apis, err)
	}
	if after := len(sent.Requests()); after != before {
		t.Errorf("sent %q, want nothing", sent.Requests()[before:])
	}
	fresh := live.NewKinds(cluster.Cluster)
	discovered, err := fresh.Mapping(t.Context(), gadget)
	if err != nil || discovered != mapping {
		t.Errorf("discovery says %+v, %v", discovered, err)
	}
}
