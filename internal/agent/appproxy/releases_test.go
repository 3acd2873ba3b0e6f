package appproxy_test

import (
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/progressive"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// release is a Release of a Deployment, with an owner.
const release = `apiVersion: slipway.dev/v1alpha1
kind: Release
metadata:
  name: %s
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: %s}]
spec:
  workload: {apiVersion: apps/v1, kind: Deployment, name: web}
  revisions:
  - {name: stable, hash: aaa, replicaSet: u1, weight: 80}
  - {name: canary, hash: bbb, replicaSet: u2, weight: 20}
status:
  phase: Progressing
  step: 2
  steps: 4
  message: canary 20 %%, waiting for 500 requests
  decision: {outcome: Wait, reason: TooFewRequests, at: "2026-01-01T00:00:00Z"}
  revisions:
  - {name: stable, hash: aaa, ready: 4, requests: 812, errors: 1, p99Micros: 12345}
`

func (w *world) releases(t *testing.T, claims wire.RuntimeClaims) runtimev1connect.ReleaseServiceClient {
	t.Helper()
	return runtimev1connect.NewReleaseServiceClient(w.httpWith(t, claims), w.address+"/app-proxy", readable())
}

// TestReleases: the releases of an Application's Deployments are shown with what the
// user may request of them, and no others.
func TestReleases(t *testing.T) {
	w, home := newActionWorld(t)
	admin := w.releases(t, wire.RuntimeClaims{Role: permission.RoleAdmin})
	list := func(client runtimev1connect.ReleaseServiceClient) []*runtimev1.ReleaseState {
		t.Helper()
		return must.Get(client.ListReleases(t.Context(), connect.NewRequest(&runtimev1.ListReleasesRequest{Ref: shopRef()})))(t).Msg.GetReleases()
	}
	if found := list(admin); len(found) != 0 {
		t.Fatalf("without the kind there are %v", found)
	}
	w.DefineFiles(t, "../../../charts/gitops-runtime/crds/slipway.dev_releases.yaml")
	live := must.Get(w.Client.AppsV1().Deployments(home).Get(t.Context(), "web", metav1.GetOptions{}))(t)
	// One of another workload, and one that only claims the name of ours.
	w.Apply(t, home, fmt.Sprintf(release, "other", live.UID))
	w.Apply(t, home, fmt.Sprintf(release, "web", "00000000-0000-0000-0000-000000000000"))
	if found := list(admin); len(found) != 0 {
		t.Fatalf("of other workloads there are %v", found)
	}
	request := func(client runtimev1connect.ReleaseServiceClient, action string, object *runtimev1.ObjectRef) error {
		_, err := client.RequestAction(t.Context(), connect.NewRequest(&runtimev1.RequestActionRequest{Ref: shopRef(), Object: object, Action: action}))
		return err
	}
	web := &runtimev1.ObjectRef{Group: v1alpha1.Group, Kind: v1alpha1.KindRelease, Namespace: home, Name: "web"}
	if err := request(admin, "abort", web); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("an action of another workload's: %v", err)
	}
	w.Apply(t, home, fmt.Sprintf(release, "web", live.UID))

	limited := w.releases(t, wire.RuntimeClaims{Role: permission.RoleRestricted, Policy: wire.PolicyExcerpt{
		Text: "p,ada@example.com,applications,get,team/*,allow\np,ada@example.com,applications,action/slipway.dev/Release/pause,team/*,allow\n",
	}})
	found := list(limited)
	if len(found) != 1 || len(found[0].GetRevisions()) != 2 {
		t.Fatalf("got %v", found)
	}
	one := found[0]
	if one.GetPhase() != "Progressing" || one.GetStep() != 2 || one.GetWeight() != 20 || one.GetDecision().GetReason() != "TooFewRequests" ||
		one.GetRevisions()[0].GetTraffic().GetRequests() != 812 || one.GetRevisions()[1].GetTraffic() != nil {
		t.Errorf("got %v", one)
	}
	text := ""
	for _, action := range one.GetActions() {
		text += action.GetName() + flag(action.GetAllowed(), " allowed") + ";"
	}
	if want := "promote;promote-full;pause allowed;abort;"; text != want {
		t.Errorf("the actions are %s, want %s", text, want)
	}
	if err := request(limited, "abort", one.GetObject()); connect.CodeOf(err) != connect.CodePermissionDenied || !strings.Contains(err.Error(), "action/slipway.dev/Release/abort") {
		t.Errorf("an action without the right: %v", err)
	}
	must.Do(t, request(limited, "pause", one.GetObject()))
	object := must.Get(w.Dynamic.Resource(progressive.KindRelease.Resource()).Namespace(home).Get(t.Context(), "web", metav1.GetOptions{}))(t)
	if value := object.GetAnnotations()[v1alpha1.AnnotationReleaseRequest]; !strings.HasPrefix(value, "pause/") {
		t.Errorf("the request is %q", value)
	}
	for action, object := range map[string]*runtimev1.ObjectRef{
		"explode": web, "pause": {Group: "apps", Kind: "Deployment", Namespace: home, Name: "web"},
	} {
		if err := request(admin, action, object); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s of %v: %v", action, object, err)
		}
	}
}
