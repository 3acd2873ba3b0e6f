package argoapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/argocd"
)

// request returns the message of a procedure from a document.
func request(t *testing.T, name, document string) argocd.Request {
	t.Helper()
	found, _ := argocd.Find(http.MethodPost, "/application.ApplicationService/"+name)
	return argocd.Request{Message: must.Get(found.FromREST(nil, nil, []byte(document)))(t)}
}

// TestEachProcedureIsServed: the table and the service agree.
func TestEachProcedureIsServed(t *testing.T) {
	s := must.Get(New(Options{}))(t)
	if len(s.served) != len(argocd.Procedures()) {
		t.Errorf("%d procedures are served, and %d are in the table", len(s.served), len(argocd.Procedures()))
	}
}

// TestClaimsAreNeeded: the handler serves nothing without a verified token, in
// either protocol.
func TestClaimsAreNeeded(t *testing.T) {
	s := must.Get(New(Options{}))(t)
	for path, method := range map[string]string{"/api/version": "GET", "/version.VersionService/Version": "POST"} {
		response := httptest.NewRecorder()
		call := httptest.NewRequest(method, path, strings.NewReader("{}"))
		call.Header.Set("Content-Type", "application/json")
		s.ServeHTTP(response, call)
		if response.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", path, response.Code, response.Body)
		}
	}
}

// TestSyncOf: what a sync has, and what is refused because it would be lost.
func TestSyncOf(t *testing.T) {
	got := must.Get(syncOf(request(t, "Sync", `{"name":"web","appNamespace":"team","revision":"v1","prune":true,"strategy":{"apply":{"force":true}},
		"resources":[{"group":"apps","kind":"Deployment","name":"a","namespace":"n"}],"syncOptions":{"items":["Replace=true"]},"infos":[{"name":"x"}]}`)))(t)
	if want := `ref:{namespace:"team" name:"web"} revision:"v1" prune:true force:true resources:{group:"apps" kind:"Deployment" namespace:"n" name:"a"} sync_options:"Replace=true" strategy:"apply"`; strings.ReplaceAll(got.String(), "  ", " ") != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := must.Get(syncOf(request(t, "Sync", `{"name":"web","strategy":{"hook":{"force":true}}}`)))(t); got.GetStrategy() != "hook" || !got.GetForce() {
		t.Errorf("got %s", got)
	}
	if got := must.Get(syncOf(request(t, "Sync", `{"name":"web"}`)))(t); got.GetStrategy() != "" || got.GetForce() || got.GetPrune() {
		t.Errorf("got %s", protojson.Format(got))
	}
	for _, document := range []string{
		`{"manifests":["x"]}`, `{"revisions":["x"]}`, `{"retryStrategy":{"limit":1}}`,
	} {
		if _, err := syncOf(request(t, "Sync", document)); connect.CodeOf(err) != connect.CodeUnimplemented {
			t.Errorf("%s: %v", document, err)
		}
	}
}

// TestFilter: which Applications a list or a watch has.
func TestFilter(t *testing.T) {
	const app = `{"metadata":{"name":"web","namespace":"team","labels":{"tier":"front"}},"spec":{"project":"shop","sources":[{"repoURL":"https://git.example.com/a/b.git"}]}}`
	for document, want := range map[string]bool{
		`{}`: true, `{"name":"web"}`: true, `{"name":"we"}`: false, `{"appNamespace":"team"}`: true, `{"appNamespace":"other"}`: false,
		`{"projects":["x","shop"]}`: true, `{"projects":["x"]}`: false, `{"project":["shop"]}`: true, `{"project":["x"]}`: false, `{"project":[""]}`: true,
		`{"selector":"tier=front"}`: true, `{"selector":"tier!=front"}`: false,
		`{"repo":"https://git.example.com/A/b"}`: true, `{"repo":"https://git.example.com/a/c"}`: false,
	} {
		if got := must.Get(newFilter(request(t, "List", document)))(t).takes([]byte(app)); got != want {
			t.Errorf("%s takes it: %v", document, got)
		}
	}
	if !must.Get(newFilter(request(t, "List", `{"projects":["default"]}`)))(t).takes([]byte(`{}`)) {
		t.Error("an Application without a project is not one of default")
	}
	if _, err := newFilter(request(t, "List", `{"selector":"a=("}`)); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a selector that is none: %v", err)
	}
}

// TestLineFilter: filters of logs as Argo CD has them.
func TestLineFilter(t *testing.T) {
	for _, c := range []struct {
		filter    string
		matchCase bool
		line      string
		want      bool
	}{
		{"", false, "x", true}, {"err", false, "an ERROR", true}, {"err", true, "an ERROR", false}, {"ERR", true, "an ERROR", true},
		{"err", false, "fine", false}, {"!err", false, "an ERROR", false}, {"!err", false, "fine", true}, {"!err", true, "an ERROR", true},
	} {
		if got := lineFilter(c.filter, c.matchCase)(c.line); got != c.want {
			t.Errorf("%q, case %v, takes %q: %v", c.filter, c.matchCase, c.line, got)
		}
	}
}
