package tracking_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"slipway.dev/slipway/internal/gitops/tracking"
)

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	made.SetNamespace(namespace)
	made.SetName(name)
	return made
}

func TestParseID(t *testing.T) {
	deployment := tracking.Key{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	role := tracking.Key{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "system:shop"}
	for _, test := range []struct {
		text     string
		instance string
		key      tracking.Key
	}{
		{"guestbook:apps/Deployment:shop/web", "guestbook", deployment},
		{"team-a_guestbook:apps/Deployment:shop/web", "team-a_guestbook", deployment},
		{"guestbook:rbac.authorization.k8s.io/ClusterRole:/system:shop", "guestbook", role},
		{"guestbook:/Namespace:/shop", "guestbook", tracking.Key{Kind: "Namespace", Name: "shop"}},
		{text: ""}, {text: "guestbook"}, {text: "guestbook:apps/Deployment"},
		{text: ":apps/Deployment:shop/web"}, {text: "g:Deployment:shop/web"}, {text: "g:apps/v1/Deployment:shop/web"},
		{text: "g:apps/:shop/web"}, {text: "g:apps/Deployment:shop/"}, {text: "g:apps/Deployment:web"},
		{text: "g:apps/Deployment:a/b/c"}, {text: "g:apps/Deployment:shop/" + strings.Repeat("w", 2000)},
	} {
		id, err := tracking.ParseID(test.text)
		if test.instance == "" {
			if err == nil {
				t.Errorf("ParseID(%.40q) = %v, want an error", test.text, id)
			}
			continue
		}
		if err != nil || id.Instance != test.instance || id.Key != test.key {
			t.Errorf("ParseID(%q) = %v, %v", test.text, id, err)
		}
		if id.String() != test.text {
			t.Errorf("%q is written again as %q", test.text, id)
		}
	}
}

// Names of Applications as people write them.
func TestParseApp(t *testing.T) {
	for _, test := range []struct {
		home, text string
		want       tracking.App
	}{
		{"argocd", "shop", tracking.App{Namespace: "argocd", Name: "shop"}},
		{"", "shop", tracking.App{Name: "shop"}},
		{"argocd", "team/shop", tracking.App{Namespace: "team", Name: "shop"}},
		{home: "argocd", text: ""}, {home: "argocd", text: "/shop"}, {home: "argocd", text: "team/"}, {home: "argocd", text: "team/shop/web"}, {home: "", text: "/"},
	} {
		got, err := tracking.ParseApp(test.home, test.text)
		if refused := test.want == (tracking.App{}); refused != (err != nil) || !refused && got != test.want {
			t.Errorf("%q in %q is %v, %v, want %v", test.text, test.home, got, err, test.want)
		}
	}
}

// Argo CD: "Non self-referencing annotations" are shown, not compared, not pruned.
func TestOwnerOf(t *testing.T) {
	tracker := tracking.Tracker{ControlNamespace: "argocd"}
	guestbook := tracking.App{Namespace: "argocd", Name: "guestbook"}
	for _, test := range []struct {
		name  string
		id    string
		of    *unstructured.Unstructured
		owner tracking.App
	}{
		{"its own", "guestbook:apps/Deployment:shop/web", object("apps/v1", "Deployment", "shop", "web"), guestbook},
		{"an application of another namespace", "team_guestbook:apps/Deployment:shop/web",
			object("apps/v1", "Deployment", "shop", "web"), tracking.App{Namespace: "team", Name: "guestbook"}},
		{"a namespace where there is none", "guestbook:/Namespace:default/shop", object("v1", "Namespace", "", "shop"), guestbook},
		{"copied to another name", "guestbook:apps/Deployment:shop/web", object("apps/v1", "Deployment", "shop", "web2"), tracking.App{}},
		{"copied to another namespace", "guestbook:apps/Deployment:shop/web", object("apps/v1", "Deployment", "test", "web"), tracking.App{}},
		{"copied to another kind", "guestbook:/Service:shop/web", object("discovery.k8s.io/v1", "EndpointSlice", "shop", "web"), tracking.App{}},
		{"another group", "guestbook:extensions/Ingress:shop/web", object("networking.k8s.io/v1", "Ingress", "shop", "web"), tracking.App{}},
		{"not an id", "guestbook", object("v1", "Service", "shop", "web"), tracking.App{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.of.SetAnnotations(map[string]string{tracking.Annotation: test.id})
			owner, ok := tracker.OwnerOf(test.of)
			if owner != test.owner || ok != (test.owner != tracking.App{}) {
				t.Errorf("owner is %v, %v, want %v", owner, ok, test.owner)
			}
			if tracker.Stamped(test.of, guestbook) {
				t.Error("without our label it counts as stamped")
			}
		})
	}
	if _, ok := tracker.OwnerOf(object("v1", "Service", "shop", "web")); ok {
		t.Error("an object without the annotation has an owner")
	}
}

func TestStamp(t *testing.T) {
	tracker := tracking.Tracker{ControlNamespace: "argocd"}
	apps := []tracking.App{{"argocd", "guestbook"}, {"team", "guestbook"}, {"argocd", "team"}, {"a", strings.Repeat("n", 253)}}
	for i, app := range apps {
		of := object("v1", "Service", "shop", "web")
		of.SetAnnotations(map[string]string{"kept": "yes", tracking.Annotation: "other:/Service:shop/web"})
		of.SetLabels(map[string]string{"kept": "yes", tracking.Label: "other"})
		tracker.Stamp(of, app)
		if of.GetAnnotations()["kept"] != "yes" || of.GetLabels()["kept"] != "yes" {
			t.Errorf("%v: other marks are lost: %v %v", app, of.GetAnnotations(), of.GetLabels())
		}
		if problems := validation.IsValidLabelValue(of.GetLabels()[tracking.Label]); len(problems) > 0 {
			t.Errorf("%v: the label is not valid: %v", app, problems)
		}
		for j, other := range apps {
			if tracker.Stamped(of, other) != (i == j) {
				t.Errorf("what is stamped for %v is stamped for %v: %v", app, other, i != j)
			}
		}
	}
	// The label alone is no mark.
	copied := object("v1", "Service", "shop", "web")
	tracker.Stamp(copied, apps[0])
	copied.SetLabels(map[string]string{tracking.Label: apps[1].Label()})
	if tracker.Stamped(copied, apps[0]) || tracker.Stamped(copied, apps[1]) {
		t.Error("an object with the annotation of one and the label of another is stamped")
	}
	of := object("v1", "Service", "shop", "web")
	tracker.Stamp(of, apps[0])
	if got := of.GetAnnotations()[tracking.Annotation]; got != "guestbook:/Service:shop/web" {
		t.Errorf("annotation is %q", got)
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("guestbook:apps/Deployment:shop/web")
	f.Add("a_b:rbac.authorization.k8s.io/ClusterRole:/system:x")
	f.Add("::://///")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := tracking.ParseID(text)
		if err != nil {
			return
		}
		if id.String() != text {
			t.Errorf("%q is written again as %q", text, id)
		}
		if !id.Names(id.Key) {
			t.Errorf("%q does not name its own object", text)
		}
	})
}
