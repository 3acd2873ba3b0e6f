package argocd_test

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/argocd"
	"slipway.dev/slipway/internal/wire/permission"
)

// find returns the procedure with a name.
func find(t *testing.T, name string) *argocd.Procedure {
	t.Helper()
	found, _ := argocd.Find("POST", name)
	if found == nil {
		t.Fatalf("%s is not served", name)
	}
	return found
}

// TestProcedures: every procedure has its messages and someone who may call it,
// and the version is the one of the module whose rules are used.
func TestProcedures(t *testing.T) {
	for _, one := range argocd.Procedures() {
		if one.NewRequest() == nil || one.NewResponse() == nil || one.Rule.Permission == permission.None {
			t.Errorf("%s has no messages, or no rule", one.Name)
		}
	}
	if text := string(must.Get(os.ReadFile("../../../go.mod"))(t)); !strings.Contains(text, "github.com/argoproj/argo-cd/v3 "+argocd.Version+"\n") {
		t.Errorf("go.mod has another version of Argo CD than %s", argocd.Version)
	}
}

// TestFind: paths of both protocols, with the fields in them.
func TestFind(t *testing.T) {
	for _, c := range []struct{ method, path, name, field, value string }{
		{"GET", "/api/v1/applications", "/application.ApplicationService/List", "", ""},
		{"GET", "/api/v1/applications/web", "/application.ApplicationService/Get", "name", "web"},
		{"DELETE", "/api/v1/applications/web", "/application.ApplicationService/Delete", "name", "web"},
		{"DELETE", "/api/v1/applications/web/operation", "/application.ApplicationService/TerminateOperation", "name", "web"},
		{"GET", "/api/v1/applications/web/resource-tree", "/application.ApplicationService/ResourceTree", "applicationName", "web"},
		{"GET", "/api/v1/applications/web/pods/p1/logs", "/application.ApplicationService/PodLogs", "podName", "p1"},
		{"GET", "/api/v1/account/can-i/applications/sync/shop/web", "/account.AccountService/CanI", "subresource", "shop/web"},
		{"POST", "/application.ApplicationService/Sync", "/application.ApplicationService/Sync", "", ""},
		{"GET", "/application.ApplicationService/Sync", "", "", ""},
		{"POST", "/api/v1/applications/web", "", "", ""},
		{"PUT", "/api/v1/applications/web", "", "", ""},
		{"GET", "/api/v1/applications/", "", "", ""},
		{"GET", "/api/v1/applications/web/", "", "", ""},
		{"GET", "/api/v1/account/can-i/applications/sync", "", "", ""},
	} {
		found, values := argocd.Find(c.method, c.path)
		name := ""
		if found != nil {
			name = found.Name
		}
		if name != c.name || values[c.field] != c.value {
			t.Errorf("%s %s: %q %v", c.method, c.path, name, values)
		}
	}
}

// TestWireFormat: the bytes are those that Argo CD's own types have. They were
// written by hand from its protocol definitions: a tag is the number of the field
// times eight and the type.
func TestWireFormat(t *testing.T) {
	for _, c := range []struct{ name, document, want string }{
		{"/application.ApplicationService/Get", `{"apiVersion":"x","metadata":{"name":"a","creationTimestamp":"1970-01-01T00:00:05Z","labels":{"k":"v"}},"spec":{"project":"p"}}`,
			"0a 11" + "0a 01 61" + "42 04 08 05 10 00" + "5a 06 0a 01 6b 12 01 76" + "12 03 1a 01 70"},
		{"/application.ApplicationService/Get", `{"spec":{"source":{"helm":{"valuesObject":{"b":1}}},"syncPolicy":{"automated":{"enabled":false}}}}`,
			"12 15" + "0a 0d 3a 0b 52 09 0a 07 7b2262223a317d" + "22 04 0a 02 20 00"},
		{"/application.ApplicationService/ResourceTree", `{"nodes":[{"kind":"Pod","uid":"u","parentRefs":[{"name":"r"}]}]}`,
			"0a 0f" + "0a 08 1a 03 506f64 32 01 75" + "12 03 2a 01 72"},
		{"/application.ApplicationService/Watch", `{"type":"ADDED","application":{"status":{"sync":{"status":"Synced"},"history":[{"id":7}]}}}`,
			"0a 05 4144444544" + "12 10 1a 0e 12 08 0a 06 53796e636564 22 02 28 07"},
	} {
		message := must.Get(find(t, c.name).Response([]byte(c.document)))(t)
		got := hex.EncodeToString(must.Get(proto.MarshalOptions{Deterministic: true}.Marshal(message))(t))
		if want := strings.ReplaceAll(c.want, " ", ""); got != want && !sameFields(t, find(t, c.name), got, want) {
			t.Errorf("%s: got %s, want %s: %s", c.document, got, want, protojson.Format(message))
		}
	}
}

// sameFields reports whether bytes are the same message, with fields in another
// order.
func sameFields(t *testing.T, of *argocd.Procedure, got, want string) bool {
	t.Helper()
	a, b := of.NewResponse(), of.NewResponse()
	must.Do(t, proto.Unmarshal(must.Get(hex.DecodeString(got))(t), a))
	must.Do(t, proto.Unmarshal(must.Get(hex.DecodeString(want))(t), b))
	return len(got) == len(want) && proto.Equal(a, b) && len(b.ProtoReflect().GetUnknown()) == 0
}

// TestFromREST: path, query and body become fields; the path counts most.
func TestFromREST(t *testing.T) {
	sync := find(t, "/application.ApplicationService/Sync")
	message := must.Get(sync.FromREST(map[string]string{"name": "web"}, map[string][]string{"appNamespace": {"team"}, "name": {"other"}, "unknown": {"x"}},
		[]byte(`{"name":"third","prune":true,"strategy":{"hook":{"force":true}},"resources":[{"kind":"Pod","name":"p"}],"syncOptions":{"items":["A=b"]}}`)))(t)
	in := argocd.Request{Message: message}
	namespace, name := in.Application()
	if namespace != "team" || name != "web" || !in.Flag("prune") || in.Flag("dryRun") || in.Has("dryRun") {
		t.Errorf("got %s", protojson.Format(message))
	}
	if !in.Child("strategy").Child("hook").Child("syncStrategyApply").Flag("force") || in.Children("resources")[0].Text("kind") != "Pod" || in.Child("syncOptions").Texts("items")[0] != "A=b" {
		t.Errorf("got %s", protojson.Format(message))
	}
	logs := find(t, "/application.ApplicationService/PodLogs")
	message = must.Get(logs.FromREST(nil, map[string][]string{"tailLines": {"5"}, "follow": {"true"}}, nil))(t)
	if in := (argocd.Request{Message: message}); in.Number("tailLines") != 5 || !in.Flag("follow") {
		t.Errorf("got %s", protojson.Format(message))
	}
	list := must.Get(find(t, "/application.ApplicationService/List").FromREST(nil, map[string][]string{"projects": {"a", "b"}}, nil))(t)
	if got := (argocd.Request{Message: list}).Texts("projects"); len(got) != 2 || got[1] != "b" {
		t.Errorf("the projects are %v", got)
	}
	for body, want := range map[string]string{
		`[]`: "no JSON object", `{"prune":1}`: "prune", `{"name":1}`: "name", `{"resources":{}}`: "resources", `{"strategy":"x"}`: "strategy",
		`{"sourcePositions":["x"]}`: "sourcePositions", `{"name":`: "no JSON object",
	} {
		if _, err := sync.FromREST(nil, nil, []byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := logs.FromREST(nil, map[string][]string{"tailLines": {"many"}}, nil); err == nil {
		t.Error("a number of lines that is none is accepted")
	}
}

// FuzzFromREST: no request makes the program panic, and what is accepted can be
// sent.
func FuzzFromREST(f *testing.F) {
	f.Add("POST", "/api/v1/applications/web/sync", "prune", "true", []byte(`{"strategy":{"hook":{}}}`))
	f.Add("GET", "/api/v1/applications/web/logs", "sinceSeconds", "5", []byte(nil))
	f.Add("POST", "/application.ApplicationService/Rollback", "id", "-1", []byte(`{"id":"9223372036854775807"}`))
	f.Fuzz(func(t *testing.T, method, path, key, value string, body []byte) {
		found, values := argocd.Find(method, path)
		if found == nil {
			return
		}
		message, err := found.FromREST(values, map[string][]string{key: {value}}, body)
		if err != nil {
			return
		}
		content, err := proto.Marshal(message)
		if err != nil {
			return // a text that is no UTF-8
		}
		if again := found.NewRequest(); proto.Unmarshal(content, again) != nil || !proto.Equal(message, again) {
			t.Errorf("%s becomes %s", protojson.Format(message), protojson.Format(again))
		}
	})
}
