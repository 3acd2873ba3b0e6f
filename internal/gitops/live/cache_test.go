package live_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

var errNotYet = errors.New("not yet")

// namesOf are the sorted names of an Application's objects in a namespace.
func (w *world) namesOf(app tracking.App, namespace string) []string {
	var names []string
	for _, object := range w.Of(app) {
		if object.Key.Namespace == namespace {
			names = append(names, object.Key.Name)
		}
	}
	slices.Sort(names)
	return names
}

// The cache has only objects with the label, and reports each change of them.
func TestFollow(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, configMap("one", "first", shop)+configMap("two", "first", bank)+configMap("bare", "first"))
	sent := &kubetest.Gate{}
	w := follow(t, connect(t, cluster, sent.Option))
	w.mustFollow(configMaps)
	if names := w.namesOf(shop, namespace); !slices.Equal(names, []string{"one"}) {
		t.Errorf("shop has %q", names)
	}
	if w.Get(mapKey(namespace, "bare")) != nil {
		t.Error("what has no label is there")
	}
	w.took()

	cluster.Apply(t, namespace, configMap("one", "second", shop)+configMap("bare", "second", shop))
	w.until("changes are seen", func() bool {
		return w.data(namespace, "one", "value") == "second" && w.data(namespace, "bare", "value") == "second"
	})
	w.until("both are told", func() bool {
		return w.hears(shop.Label()+" ConfigMap one") && w.hears(shop.Label()+" ConfigMap bare")
	})
	w.took()

	cluster.Apply(t, namespace, configMap("one", "third", bank))
	w.until("both Applications hear of it", func() bool {
		return w.hears(shop.Label()+" ConfigMap one") && w.hears(bank.Label()+" ConfigMap one")
	})
	if names := w.namesOf(bank, namespace); !slices.Equal(names, []string{"one", "two"}) {
		t.Errorf("bank has %q", names)
	}
	w.took()

	remove(t, maps1(cluster, namespace), "one")
	w.until("the deletion is told", func() bool { return w.hears(bank.Label() + " ConfigMap one") })
	if w.Get(mapKey(namespace, "one")) != nil || w.Last(mapKey(namespace, "one")) == nil {
		t.Error("the object is still there, or its last state is not")
	}
	before := len(sent.Requests())
	for range 100 {
		w.mustFollow(configMaps)
	}
	if after := len(sent.Requests()); after != before {
		t.Errorf("following what is followed sent %q", sent.Requests()[before:])
	}
	if lists := sent.Requests("/configmaps", "labelSelector=slipway.dev%2Fapp"); len(lists) != 1 {
		t.Errorf("asked %q, want one stream", lists)
	}
}

// oldServer makes the API server refuse streams that begin with all objects, as
// one before 1.32 does.
func oldServer(config *rest.Config) {
	gate := &kubetest.Gate{}
	gate.Handle(func(request *http.Request, send kubetest.Send) (*http.Response, error) {
		if query := request.URL.Query(); query.Has("sendInitialEvents") {
			request = request.Clone(request.Context())
			query.Del("resourceVersionMatch")
			request.URL.RawQuery = query.Encode()
		}
		return send(request)
	})
	gate.Option(config)
}

// An API server that knows no such streams is asked for lists, in pages. The
// items of a list have no kind; the objects do.
func TestFollowByPages(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	var manifests strings.Builder
	for i := range 25 {
		manifests.WriteString(configMap(fmt.Sprintf("page-%d", i), "first", shop))
	}
	cluster.Apply(t, namespace, manifests.String())
	sent := &kubetest.Gate{}
	w := follow(t, connect(t, cluster, oldServer, sent.Option), namespace)
	w.Paged(10)
	w.mustFollow(configMaps)
	if names := w.namesOf(shop, namespace); len(names) != 25 {
		t.Errorf("there are %q", names)
	}
	object := w.Get(mapKey(namespace, "page-7"))
	if got := object.Unstructured(); got.GetKind() != "ConfigMap" || got.GetAPIVersion() != "v1" || len(got.GetManagedFields()) == 0 {
		t.Errorf("got %s", object.JSON())
	}
	if object.APIVersion != "v1" || object.UID == "" {
		t.Errorf("got %+v", object)
	}
	cluster.Apply(t, namespace, configMap("page-7", "second", shop))
	w.until("the change is seen", func() bool { return w.data(namespace, "page-7", "value") == "second" })
}

// What may not be read is an error that states what to do. Given the right, it
// goes on.
func TestFollowForbidden(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, configMap("one", "first", shop))
	w := follow(t, connect(t, cluster, kubetest.Account(namespace, "agent")), namespace)
	err := w.Follow(t.Context(), []schema.GroupKind{configMaps})
	want := "cannot follow configmaps in the namespace " + namespace + ": give the agent the verbs get, list and watch for configmaps"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, want %s", err, want)
	}
	if _, err := w.Fetch(t.Context(), mapKey(namespace, "one"), "v1"); err == nil || !strings.Contains(err.Error(), "give the agent the verb get for configmaps") {
		t.Errorf("got %v", err)
	}
	grant(t, cluster, namespace)
	w.until("it may be followed", func() bool { return w.Follow(t.Context(), []schema.GroupKind{configMaps}) == nil })
	if w.data(namespace, "one", "value") != "first" {
		t.Error("the object is missing")
	}
}

func grant(t *testing.T, cluster *kubetest.Cluster, namespace string) {
	t.Helper()
	cluster.Apply(t, namespace, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: agent}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: agent}
subjects: [{kind: ServiceAccount, name: agent, namespace: `+namespace+`}]
`)
}

// With namespaces given, others are not asked for, and kinds without a namespace
// are left out where they may not be read.
func TestFollowNamespaces(t *testing.T) {
	cluster := kubetest.Shared(t)
	own, other := cluster.Namespace(t), cluster.Namespace(t)
	cluster.Apply(t, own, configMap("one", "first", shop))
	cluster.Apply(t, other, configMap("one", "first", shop))
	grant(t, cluster, own)
	sent := &kubetest.Gate{}
	w := follow(t, connect(t, cluster, sent.Option, kubetest.Account(own, "agent")), own)
	w.until("the right is there", func() bool { return w.Follow(t.Context(), []schema.GroupKind{configMaps, roles}) == nil })
	if len(w.namesOf(shop, own)) != 1 || len(w.namesOf(shop, other)) != 0 {
		t.Errorf("there are %v", w.Of(shop))
	}
	if asked := sent.Requests("/api/v1/configmaps"); len(asked) > 0 {
		t.Errorf("asked for all namespaces: %q", asked)
	}
}

// A kind that the cluster does not have has no objects, and is followed when it
// comes. When it goes, its objects go, and it can come back.
func TestKindComesAndGoes(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	group := namespace + ".example.test"
	gadget := schema.GroupKind{Group: group, Kind: "Gadget"}
	key := tracking.Key{Group: group, Kind: "Gadget", Namespace: namespace, Name: "one"}
	manifest := "apiVersion: " + group + "/v1\nkind: Gadget\nmetadata: {name: one, labels: {slipway.dev/app: " + shop.Label() + "}}\nspec: {size: 3}\n"
	w := follow(t, connect(t, cluster))
	w.mustFollow(gadget)
	if object, err := w.Fetch(t.Context(), key, "v1"); object != nil || err != nil {
		t.Errorf("got %v, %v, want nothing", object, err)
	}
	for round := range 2 {
		define(t, cluster, group)
		cluster.Apply(t, namespace, manifest)
		w.until("the kind is there", func() bool {
			w.kinds.Invalidate()
			w.mustFollow(gadget)
			return w.Get(key) != nil
		})
		w.took()
		remove(t, cluster.Dynamic.Resource(kube.DefinitionResource()), "gadgets."+group)
		w.until("the kind is gone", func() bool {
			return w.Get(key) == nil && strings.Count(w.log.String(), "kind removed from cluster") == round+1
		})
		w.until("it is told", func() bool { return w.hears(shop.Label() + " Gadget one") })
		kubetest.WaitFor(t, cluster.Dynamic.Resource(kube.DefinitionResource()), kube.Named("gadgets."+group), patience, func(found []*unstructured.Unstructured) error {
			if len(found) > 0 {
				return errNotYet
			}
			return nil
		})
	}
	if lines := strings.Count(w.log.String(), "level=WARN") + strings.Count(w.log.String(), "level=INFO"); lines > 12 {
		t.Errorf("the log has %d lines:\n%s", lines, w.log)
	}
}

// Kinds without a user are not watched.
func TestRetain(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, configMap("one", "first", shop))
	w := follow(t, connect(t, cluster), namespace)
	w.mustFollow(configMaps, deployments)
	w.Retain([]schema.GroupKind{deployments})
	if w.Get(mapKey(namespace, "one")) != nil {
		t.Error("an object of a kind that is not followed is there")
	}
	cluster.Apply(t, namespace, configMap("two", "first", shop))
	w.mustFollow(configMaps)
	if names := w.namesOf(shop, namespace); len(names) != 2 {
		t.Errorf("there are %q", names)
	}
}

// Fetch reads what has no label, and in the version that is asked for.
func TestFetch(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, configMap("bare", "first")+configMap("one", "first", shop)+`---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, labels: {slipway.dev/app: `+shop.Label()+`}}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
`)
	sent := &kubetest.Gate{}
	w := follow(t, connect(t, cluster, sent.Option), namespace)
	w.mustFollow(configMaps, schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"})
	scaler := tracking.Key{Group: "autoscaling", Kind: "HorizontalPodAutoscaler", Namespace: namespace, Name: "web"}
	for _, tt := range []struct {
		key      tracking.Key
		version  string
		want     string
		requests int
	}{
		{mapKey(namespace, "one"), "v1", "v1", 0},
		{mapKey(namespace, "bare"), "v1", "v1", 1},
		{mapKey(namespace, "absent"), "v1", "", 1},
		{scaler, "v2", "autoscaling/v2", 0},
		{scaler, "v1", "autoscaling/v1", 1},
		{scaler, "v1", "autoscaling/v1", 0},
		{tracking.Key{Group: "example.test", Kind: "Nothing", Namespace: namespace, Name: "x"}, "v1", "", 0},
	} {
		before := len(sent.Requests("/namespaces/"))
		object, err := w.Fetch(t.Context(), tt.key, tt.version)
		got := ""
		if object != nil {
			got = object.Unstructured().GetAPIVersion()
		}
		if err != nil || got != tt.want || object != nil && object.Key != tt.key {
			t.Errorf("%s in %s: got %q, %v, want %q", tt.key, tt.version, got, err, tt.want)
		}
		if count := len(sent.Requests("/namespaces/")) - before; count != tt.requests {
			t.Errorf("%s in %s took %d requests, want %d", tt.key, tt.version, count, tt.requests)
		}
	}
	if _, err := w.Fetch(t.Context(), scaler, "v9"); err == nil {
		t.Error("a version that is not served is no error")
	}
}

// What we wrote is visible before any event, and an object that has lost its
// label is gone.
func TestNote(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	w := follow(t, connect(t, cluster))
	w.mustFollow(deployments)
	key := mapKey(namespace, "one")
	note := func(manifest string) *unstructured.Unstructured {
		answer := cluster.Apply(t, namespace, manifest)[0]
		w.Note(answer)
		return answer
	}
	note(configMap("one", "first", shop)) // of a kind that nobody follows
	if w.data(namespace, "one", "value") != "first" {
		t.Error("what was noted is not there")
	}
	w.mustFollow(configMaps)
	answer := note(configMap("one", "second", shop))
	if object := w.Get(key); object == nil || object.ResourceVersion != answer.GetResourceVersion() || w.data(namespace, "one", "value") != "second" {
		t.Errorf("got %+v, want what was noted", object)
	}
	raw := must.Get(answer.MarshalJSON())(t)
	w.NoteJSON(raw)
	w.took()
	note(configMap("one", "third", bank))
	w.until("the Application that lost it hears of it", func() bool { return w.hears(shop.Label() + " ConfigMap one") })

	unlabelled := must.Get(maps1(cluster, namespace).Patch(t.Context(), "one", types.MergePatchType, []byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{}))(t)
	w.Note(unlabelled)
	if w.Get(key) != nil || len(w.namesOf(bank, namespace)) != 0 {
		t.Error("an object without the label is there")
	}
}
