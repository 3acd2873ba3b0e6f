package filter_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// responder is an authentication server that always has the same response.
type responder struct {
	head string
	// got are the headers of the last sub-request.
	got map[string]string
}

func (s *responder) Do(request *filter.Subrequest) (*filter.Subresponse, error) {
	s.got = map[string]string{}
	for _, field := range request.Fields {
		s.got[strings.ToLower(field.Name)] += field.Value
	}
	limits := h1.DefaultLimits()
	var head h1.ResponseHead
	if _, err := head.Parse([]byte(strings.ReplaceAll(s.head, "\n", "\r\n")), &limits); err != nil {
		return nil, err
	}
	return &filter.Subresponse{Head: &head}, nil
}

// authenticating makes the chain of a rule with directives and an authRequest behind.
func authenticating(t testing.TB, server filter.SubrequestClient, directives string) (*filter.Chain, error) {
	t.Helper()
	rule := &route.Rule{
		ID: route.ID{Namespace: "ns", Name: "app"}, Host: "a.example", Directives: new(route.Directives),
		Policies: policiesOf(t, `{"forwardAuth": {"backend": {"name": "auth", "port": 80}, "path": "/", "authRequest": {}}}`),
	}
	must.Do(t, json.Unmarshal([]byte(directives), rule.Directives))
	deps := everything()
	deps.Counters = filter.NewCounters(start)
	deps.Backend = func(route.BackendID) filter.SubrequestClient { return server }
	chain, err := deps.CompileRule(rule)
	return &chain, err
}

// ofUser has a header with a value of the server.
const ofUser = `{"auth": {"set": [{"variable": "user", "value": [{"variable": "upstream_http_x_auth_user"}]}]},
	"request": [{"name": "X-User", "value": [{"variable": "user"}]}, {"name": "Authorization", "value": [{"text": "by "}, {"variable": "user"}]}],
	"response": {"add": [{"name": "X-Seen", "value": [{"text": "<"}, {"variable": "user"}, {"text": ">"}], "always": true}]}}`

// TestAuthVariables: the backend gets values of the server, and none of the client.
func TestAuthVariables(t *testing.T) {
	server := &responder{head: "HTTP/1.1 200 OK\nX-Auth-User: anna\nX_AUTH_USER: bert\nX-Auth-Users: no\n\n"}
	chain := must.Get(authenticating(t, server, ofUser))(t)
	forged := []string{"X-User: root", "Authorization: Bearer given", "X-Auth-User: root", "X-Other: kept", "User: root"}
	r := begin(t, chain, get("/", forged...))
	head := r.forwarded(t, false)
	if r.status() != 0 || !strings.Contains(head, "X-User: anna, bert\n") || !strings.Contains(head, "Authorization: by anna, bert\n") || strings.Contains(head, "X-User: root") {
		t.Errorf("%d: the backend gets\n%s", r.status(), head)
	}
	// The server needs the credentials, and must not take a name that it decides for one
	// that it has decided before.
	if server.got["authorization"] != "Bearer given" || server.got["x-other"] != "kept" || server.got["x-user"] != "" {
		t.Errorf("the server gets %v", server.got)
	}
	if !chain.Guards([]byte("x-user")) {
		t.Error("a trailer can take the place of X-User")
	}
	r.finish(200)
	if head := r.replied(t, "HTTP/1.1 200 OK\nContent-Length: 0\n\n"); !strings.Contains(head, "X-Seen: <anna, bert>\n") {
		t.Errorf("the client gets\n%s", head)
	}

	// The next request of the connection starts without values, and one without a path
	// gets no header of the client either.
	server.head = "HTTP/1.1 200 OK\n\n"
	for _, raw := range []string{get("/", forged...), "OPTIONS * HTTP/1.1\nHost: a.example\nX-User: root\n\n"} {
		r.x.Begin(parse(t, raw, h1.DefaultLimits()), chain.Marks())
		r.ran, r.answer = chain.Request(&r.x)
		if head := r.forwarded(t, false); strings.Contains(head, "X-User") || strings.Contains(head, "anna") {
			t.Errorf("the backend gets\n%s", head)
		}
	}
}

// TestAuthVariablesOfRefusals: a refusal has values, too, and a server that fails has a
// status.
func TestAuthVariablesOfRefusals(t *testing.T) {
	const status = `{"auth": {"set": [{"variable": "code", "value": [{"variable": "upstream_status"}]}]},
		"response": {"add": [{"name": "X-Code", "value": [{"text": "<"}, {"variable": "code"}, {"text": ">"}], "always": true}]}}`
	for _, c := range []struct {
		server filter.SubrequestClient
		status int
		want   string
	}{
		{&responder{head: "HTTP/1.1 401 Unauthorized\n\n"}, 401, "<401>"},
		{&responder{head: "HTTP/1.1 403 Forbidden\n\n"}, 403, "<403>"},
		{&responder{head: "HTTP/1.1 404 Not Found\n\n"}, 500, "<404>"},
		{nobody{}, 500, "<502>"},
	} {
		r := begin(t, must.Get(authenticating(t, c.server, status))(t), get("/"))
		r.finish(0)
		head := r.replied(t, "HTTP/1.1 500 Internal Server Error\nContent-Length: 0\n\n")
		if r.status() != c.status || !strings.Contains(head, "X-Code: "+c.want+"\n") {
			t.Errorf("%d, want %d with %s:\n%s", r.status(), c.status, c.want, head)
		}
	}
}

// TestAuthVariableBounds: values of a server are bounded as those of a client.
func TestAuthVariableBounds(t *testing.T) {
	server := &responder{head: "HTTP/1.1 200 OK\nX-Auth-User: " + strings.Repeat("x", 2000) + "\n\n"}
	var parts, many []string
	for i := range 40 {
		parts = append(parts, `{"variable": "upstream_http_x_auth_user"}`)
		many = append(many, fmt.Sprintf(`{"variable": "v%d", "value": [{"variable": "upstream_http_x_auth_user"}]}`, i))
	}
	for _, sets := range []string{`{"variable": "user", "value": [` + strings.Join(parts, ",") + `]}`, strings.Join(many, ",")} {
		chain := must.Get(authenticating(t, server, `{"auth": {"set": [`+sets+`]}, "request": [{"name": "X-User", "value": [{"text": "x"}]}]}`))(t)
		if r := begin(t, chain, get("/")); r.status() != 500 || r.answer.Reason != "DirectiveValueTooLong" {
			t.Errorf("it is %+v", r.answer)
		}
	}
}

// TestAuthSteps: steps of the sub-request can take its place, and change neither the path
// nor the groups of the request.
func TestAuthSteps(t *testing.T) {
	server := &responder{head: "HTTP/1.1 200 OK\n\n"}
	chain := must.Get(authenticating(t, server, `{
		"steps": [{"rewrite": {"regexp": "^/(a)(.*)$", "path": [{"text": "//b/"}, {"variable": "2"}], "then": "serve"}}],
		"auth": {"steps": [{"if": {"variable": "http_x_code", "operator": "matches", "regexp": "^(4)(.*)$", "steps": 1}}, {"return": {"status": 403}},
			{"if": {"variable": "http_x_in", "operator": "holds", "steps": 1}}, {"return": {"status": 204}}],
			"request": [{"name": "X-Sub", "value": [{"variable": "http_x_sub"}, {"variable": "1"}]}, {"name": "X-Gone"}]},
		"request": [{"name": "X-Group", "value": [{"variable": "1"}]}]}`))(t)
	r := begin(t, chain, get("/a/x", "X-Sub: s", "X-Gone: given"))
	if head := r.forwarded(t, false); r.status() != 0 || !strings.HasPrefix(head, "GET /b/x HTTP/1.1\n") || !strings.Contains(head, "X-Group: a\n") {
		t.Errorf("%d: the backend gets\n%s", r.status(), head)
	}
	if _, sent := server.got["x-gone"]; server.got["x-sub"] != "s" || sent {
		t.Errorf("the server gets %v", server.got)
	}
	server.got = nil
	if r := begin(t, chain, get("/", "X-Code: 41")); r.status() != 403 || server.got != nil {
		t.Errorf("a return of 403 is %d, and the server got %v", r.status(), server.got)
	}
	if r := begin(t, chain, get("/", "X-In: 1")); r.status() != 0 || server.got != nil {
		t.Errorf("a return of 204 is %d, and the server got %v", r.status(), server.got)
	}
}

// TestInvalidAuthDirectives: the sub-request has no path to change, and its response is
// seen in sets only.
func TestInvalidAuthDirectives(t *testing.T) {
	for _, text := range []string{
		`{"auth": {"steps": [{"break": true}]}}`,
		`{"auth": {"steps": [{"rewrite": {"regexp": "^", "path": [{"text": "/"}]}}]}}`,
		`{"auth": {"steps": [{"set": {"variable": "args"}}]}}`,
		`{"auth": {"steps": [{"if": {"variable": "upstream_status", "operator": "holds"}}]}}`,
		`{"auth": {"set": [{"variable": "args"}]}}`,
		`{"auth": {"set": [{"variable": "http_x"}]}}`,
		`{"auth": {"set": [{"variable": "a", "value": [{"variable": "upstream_http_"}]}]}}`,
		`{"auth": {"request": [{"name": "Content-Length", "value": [{"text": "1"}]}]}}`,
		`{"request": [{"name": "X-A", "value": [{"variable": "upstream_http_a"}]}]}`,
	} {
		if _, err := authenticating(t, nobody{}, text); err == nil {
			t.Errorf("%s is compiled", text)
		}
	}
}
