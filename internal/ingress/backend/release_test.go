package backend_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// releaseScene has the Service cart with a Pod at 10.0.0.N for each N.
type releaseScene struct {
	state *snapshot.Snapshot
	slice *discoveryv1.EndpointSlice
}

func newReleaseScene() *releaseScene {
	name, port := "", int32(8080)
	s := &releaseScene{state: snapshot.New(), slice: &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "cart-1", Labels: map[string]string{discoveryv1.LabelServiceName: "cart"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}}
	s.state.Put(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	})
	return s
}

// endpoint adds an endpoint of a Pod; without a Pod, of something else.
func (s *releaseScene) endpoint(pod string) {
	endpoint := discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.0.0.%d", len(s.slice.Endpoints)+1)}}
	if pod != "" {
		endpoint.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: pod, UID: types.UID("uid-" + pod)}
	}
	s.slice.Endpoints = append(s.slice.Endpoints, endpoint)
}

// pod makes a Pod of a controller known.
func (s *releaseScene) pod(name string, controller snapshot.Controller) {
	s.state.Put(&snapshot.Owned{Kind: snapshot.Pod, Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Controller: controller})
}

func replicaSet(name string) snapshot.Controller {
	return snapshot.Controller{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: types.UID("uid-" + name)}
}

func (s *releaseScene) release(name string, weight int64, replicaSets ...string) {
	revision := func(name, set string, weight int64) map[string]any {
		return map[string]any{"name": name, "hash": set, "replicaSet": "uid-" + set, "weight": weight}
	}
	s.state.Put(&snapshot.Resource{Kind: snapshot.Release, Namespace: "shop", Name: name, Spec: map[string]any{
		"workload":  map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
		"revisions": []any{revision("stable", replicaSets[0], 100-weight), revision("canary", replicaSets[1], weight)},
		"match":     map[string]any{"header": map[string]any{"name": "X-Revision"}},
	}})
}

// build returns the revisions of the endpoints in their order, - for none.
func (s *releaseScene) build() (backend.Result, string) {
	s.state.Put(s.slice)
	result := backend.Build(s.state.View(), cart, backend.Options{})
	var text []string
	for _, endpoint := range result.Backend.Endpoints {
		name := string(endpoint.Revision)
		if name == "" {
			name = "-"
		}
		text = append(text, name)
	}
	return result, strings.Join(text, " ")
}

// TestRevisions: an endpoint has the revision of the ReplicaSet that controls its Pod.
func TestRevisions(t *testing.T) {
	s := newReleaseScene()
	deployment := snapshot.Controller{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-web"}
	for _, pod := range []string{"old", "new", "late", "third", "other", "single", "strange", ""} {
		s.endpoint(pod)
	}
	s.pod("old", replicaSet("web-a"))
	s.pod("new", replicaSet("web-b"))
	s.pod("third", replicaSet("web-c")) // another revision of the same workload
	s.pod("other", replicaSet("mail-a"))
	s.pod("single", snapshot.Controller{})
	s.pod("strange", replicaSet("unseen")) // its ReplicaSet is not known yet
	for name, owner := range map[string]snapshot.Controller{"web-a": deployment, "web-b": deployment, "web-c": deployment, "mail-a": {Kind: "Deployment", Name: "mail"}} {
		s.state.Put(&snapshot.Owned{Kind: snapshot.ReplicaSet, Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Controller: owner})
	}
	if result, got := s.build(); result.Backend.Release != nil || got != "- - - - - - - -" {
		t.Errorf("without a Release: %s", got)
	}
	s.release("web", 10, "web-a", "web-b")
	if result, got := s.build(); result.Backend.Release != nil || got != "- - - - - - - -" {
		t.Errorf("before all Pods are known: %s", got)
	}
	s.state.Put(&snapshot.OwnersState{Namespace: "shop", State: snapshot.KindKnown})
	result, got := s.build()
	if want := "stable canary - - stable stable - stable"; got != want || len(result.Refusals) > 0 {
		t.Errorf("%s, want %s; %v", got, want, result.Refusals)
	}
	want := route.Release{Namespace: "shop", Name: "web", Header: &route.ReleaseMatch{Name: "X-Revision"}}
	want.Stable, want.Canary = route.RevisionShare{Hash: "web-a", Weight: 90}, route.RevisionShare{Hash: "web-b", Weight: 10}
	if r := result.Backend.Release; r == nil || r.Stable != want.Stable || r.Canary != want.Canary || r.Header.Name != "X-Revision" || r.Name != "web" {
		t.Errorf("%+v", result.Backend.Release)
	}
	if problems := result.Backend.Validate(); len(problems) > 0 {
		t.Error(problems)
	}
	if at := result.Backend.Endpoints[0].Address; at != netip.MustParseAddrPort("10.0.0.1:8080") {
		t.Error(at)
	}
	// A Pod of the same name that replaced the one of the endpoint is another.
	s.state.Put(&snapshot.Owned{Kind: snapshot.Pod, Namespace: "shop", Name: "new", UID: "uid-newer", Controller: replicaSet("web-b")})
	if _, got := s.build(); got != "stable - - - stable stable - stable" {
		t.Errorf("a replaced Pod: %s", got)
	}
}

// TestReleaseRefusals: what keeps a Release from dividing requests is reported on it, and
// the Service is served without.
func TestReleaseRefusals(t *testing.T) {
	s := newReleaseScene()
	s.endpoint("a")
	s.endpoint("b")
	s.pod("a", replicaSet("web-a"))
	s.pod("b", replicaSet("mail-a"))
	s.release("web", 10, "web-a", "web-b")
	s.state.Put(&snapshot.OwnersState{Namespace: "shop", State: snapshot.KindForbidden})
	result, _ := s.build()
	if len(result.Refusals) != 1 || !strings.Contains(result.Refusals[0].Message, "may not list") || result.Refusals[0].Object.Kind != "Release" || len(result.Backend.Endpoints) != 2 {
		t.Errorf("forbidden: %+v", result)
	}
	s.state.Put(&snapshot.OwnersState{Namespace: "shop", State: snapshot.KindKnown})
	s.release("mail", 10, "mail-a", "mail-b")
	result, _ = s.build()
	if len(result.Refusals) != 1 || result.Refusals[0].Object.Name != "web" || result.Backend.Release == nil || result.Backend.Release.Name != "mail" {
		t.Errorf("two Releases: %+v", result.Refusals)
	}
	s.state.Delete(snapshot.Release, "shop", "mail")
	s.state.Put(&snapshot.Resource{Kind: snapshot.Release, Namespace: "shop", Name: "web", Spec: map[string]any{}})
	result, _ = s.build()
	if len(result.Refusals) != 1 || result.Backend.Release != nil || len(result.Backend.Endpoints) != 2 || result.Closed != nil {
		t.Errorf("an empty spec: %+v", result)
	}
	s.release("web", 10, "web-a", "web-a")
	if result, _ = s.build(); len(result.Refusals) != 1 || result.Backend.Release != nil || result.Closed != nil {
		t.Errorf("equal revisions: %+v", result)
	}
}
