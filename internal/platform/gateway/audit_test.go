package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// applications is the runtime's service: the name of an Application decides what
// becomes of a request.
type applications struct {
	runtimev1connect.UnimplementedApplicationServiceHandler
}

func (applications) Sync(_ context.Context, request *connect.Request[runtimev1.SyncRequest]) (*connect.Response[runtimev1.SyncResponse], error) {
	switch request.Msg.GetRef().GetName() {
	case "absent":
		return nil, connect.NewError(connect.CodeNotFound, errors.New("canary-reason"))
	case "forbidden":
		return nil, connect.NewError(connect.CodePermissionDenied, errors.New("canary-reason"))
	}
	return connect.NewResponse(&runtimev1.SyncResponse{RequestId: strings.Repeat("x", 2000)}), nil
}

func (applications) Rollback(context.Context, *connect.Request[runtimev1.RollbackRequest]) (*connect.Response[runtimev1.RollbackResponse], error) {
	return connect.NewResponse(&runtimev1.RollbackResponse{HistoryId: 3, Revision: "5eed"}), nil
}

// serveApplications makes the runtime a real server of its API.
func (w *world) serveApplications() {
	_, handler := runtimev1connect.NewApplicationServiceHandler(applications{})
	w.serve(handler)
}

// serve makes the runtime a server of one service.
func (w *world) serve(handler http.Handler) {
	w.reply(func(rw http.ResponseWriter, r *http.Request) {
		_, path, _ := strings.Cut(r.URL.Path, "/app-proxy")
		r.URL.Path = path
		handler.ServeHTTP(rw, r)
	})
}

// reports stores an application as a runtime reports it.
func (w *world) reports(t *testing.T, namespace, name, project, revision string) {
	t.Helper()
	state, err := proto.Marshal(&platformv1.Application{Namespace: namespace, Name: name, Project: project, TargetRevision: revision})
	must.Do(t, err)
	_, err = w.store.ApplyReport(t.Context(), w.runtime.ID, "stream of "+name, []store.ReportChange{
		{Number: 1, ResyncBegin: true},
		{Number: 2, Application: &store.Application{Namespace: namespace, Name: name, State: state}},
	})
	must.Do(t, err)
}

// entries returns the audit log, the oldest entry first.
func (w *world) entries(t *testing.T) []store.AuditEntry {
	t.Helper()
	entries, _, err := w.store.AuditEntries(t.Context(), w.account.ID, store.AuditFilter{OldestFirst: true}, store.Page{Size: 500})
	must.Do(t, err)
	return entries
}

// line is an entry without who and when.
func line(e store.AuditEntry) string {
	return strings.Join([]string{e.Action, e.Target, e.Runtime, e.Project, e.Application, e.Revision, e.Outcome, e.Code, e.Detail}, "|")
}

// httpClient sends the key of a caller, over HTTP/2 if it must.
func httpClient(t *testing.T, key string, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: programs.Bearer(key, transport)}
}

// promotions is the runtime's service.
type promotions struct {
	runtimev1connect.UnimplementedPromotionServiceHandler
}

func (promotions) StartPromotion(context.Context, *connect.Request[runtimev1.StartPromotionRequest]) (*connect.Response[runtimev1.StartPromotionResponse], error) {
	return connect.NewResponse(&runtimev1.StartPromotionResponse{Name: "web-1"}), nil
}

func (promotions) ApprovePromotion(context.Context, *connect.Request[runtimev1.ApprovePromotionRequest]) (*connect.Response[runtimev1.ApprovePromotionResponse], error) {
	return connect.NewResponse(&runtimev1.ApprovePromotionResponse{}), nil
}

// An entry has the Product or the Promotion, and the environment of an approval.
func TestPromotionsAreAudited(t *testing.T) {
	w := newWorld(t)
	_, handler := runtimev1connect.NewPromotionServiceHandler(promotions{})
	w.serve(handler)
	client := runtimev1connect.NewPromotionServiceClient(httpClient(t, w.admin, false), w.url+"/runtimes/prod/app-proxy")
	must.Get(client.StartPromotion(t.Context(), connect.NewRequest(&runtimev1.StartPromotionRequest{Product: "web"})))(t)
	got := []string{line(w.awaitEntries(t, 1)[0])}
	must.Get(client.ApprovePromotion(t.Context(), connect.NewRequest(&runtimev1.ApprovePromotionRequest{Name: "web-1", Environment: "prod"})))(t)
	got = append(got, line(w.awaitEntries(t, 2)[1]))
	if want := []string{"promotion.start|promotion/web|prod||||ok|ok|", "promotion.approve|promotion/web-1|prod||||ok|ok|prod"}; !slices.Equal(got, want) {
		t.Errorf("the entries are %q, want %q", got, want)
	}
}

// An entry has the object, the revision, the person behind the key and the status
// code that the caller got, in every protocol.
func TestChangesAreAudited(t *testing.T) {
	w := newWorld(t)
	w.serveApplications()
	w.reports(t, "argocd", "shop", "web", "main")
	key := must.Get(w.store.KeyByID(t.Context(), strings.Split(w.admin, "_")[1]))(t)
	user := must.Get(w.store.User(t.Context(), w.account.ID, key.UserID))(t)
	seen := 0
	for name, options := range map[string][]connect.ClientOption{
		"Connect":            nil,
		"Connect JSON":       {connect.WithProtoJSON()},
		"Connect gzip":       {connect.WithSendGzip()},
		"gRPC":               {connect.WithGRPC()},
		"gRPC JSON gzip":     {connect.WithGRPC(), connect.WithProtoJSON(), connect.WithSendGzip()},
		"gRPC-Web":           {connect.WithGRPCWeb()},
		"gRPC-Web JSON gzip": {connect.WithGRPCWeb(), connect.WithProtoJSON(), connect.WithSendGzip()},
	} {
		client := runtimev1connect.NewApplicationServiceClient(httpClient(t, w.admin, strings.HasPrefix(name, "gRPC")), w.url+"/runtimes/prod/app-proxy", options...)
		for _, c := range []struct {
			ref     *runtimev1.ApplicationRef
			request *runtimev1.SyncRequest
			code    connect.Code
			want    string
		}{
			{&runtimev1.ApplicationRef{Namespace: "argocd", Name: "shop"}, &runtimev1.SyncRequest{}, 0,
				"application.sync|application/argocd/shop|prod|web|argocd/shop|main|ok|ok|"},
			{&runtimev1.ApplicationRef{Namespace: "argocd", Name: "shop"}, &runtimev1.SyncRequest{Revision: "refs/pull/1/head", Force: true, Prune: true}, 0,
				"application.sync|application/argocd/shop|prod|web|argocd/shop|refs/pull/1/head|ok|ok|prune, force"},
			{&runtimev1.ApplicationRef{Name: "absent"}, &runtimev1.SyncRequest{Revision: "v1"}, connect.CodeNotFound,
				"application.sync|application/prod/absent|prod||prod/absent|v1|failed|not_found|"},
			{&runtimev1.ApplicationRef{Name: "forbidden"}, &runtimev1.SyncRequest{}, connect.CodePermissionDenied,
				"application.sync|application/prod/forbidden|prod||prod/forbidden||denied|permission_denied|"},
		} {
			c.request.Ref = c.ref
			_, err := client.Sync(t.Context(), connect.NewRequest(c.request))
			if (err == nil) != (c.code == 0) || err != nil && connect.CodeOf(err) != c.code {
				t.Fatalf("%s: %v", name, err)
			}
			entries := w.awaitEntries(t, seen+1)
			got := entries[seen]
			seen++
			if line(got) != c.want {
				t.Errorf("%s: got  %s\nwant %s", name, line(got), c.want)
			}
			if got.ActorKind != identity.KindKey || got.KeyID != key.ID || got.UserID != user.ID || got.UserEmail != user.Email || got.Address != "127.0.0.1" {
				t.Errorf("%s: the caller is %+v", name, got)
			}
		}
		must.Get(client.Rollback(t.Context(), connect.NewRequest(&runtimev1.RollbackRequest{Ref: &runtimev1.ApplicationRef{Namespace: "argocd", Name: "shop"}})))(t)
		if got := line(w.awaitEntries(t, seen+1)[seen]); got != "application.rollback|application/argocd/shop|prod|web|argocd/shop|5eed|ok|ok|" {
			t.Errorf("%s: got %s", name, got)
		}
		seen++
	}
}

// awaitEntries waits for a number of entries: the last one is written after the
// caller has the response.
func (w *world) awaitEntries(t *testing.T, count int) []store.AuditEntry {
	t.Helper()
	programs.Until(t, fmt.Sprintf("%d audit entries", count), func() bool { return len(w.entries(t)) >= count })
	entries := w.entries(t)
	if len(entries) != count {
		t.Fatalf("%d entries, want %d: %+v", len(entries), count, entries)
	}
	return entries
}

const syncPath = "/app-proxy/slipway.runtime.v1.ApplicationService/Sync"

// A change is recorded whatever a caller or a runtime does to its response.
func TestNoChangeWithoutEntry(t *testing.T) {
	w := newWorld(t)
	send := func(runtime string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		must.Do(t, err)
		body := `{"ref":{"name":"shop"}}`
		_, err = fmt.Fprintf(conn, "POST /runtimes/%s%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			runtime, syncPath, w.admin, len(body), body)
		must.Do(t, err)
		return conn
	}
	for n, c := range []struct {
		name, runtime, want string
		runtimeSends        http.HandlerFunc
		gone                bool // the caller closes the connection when the runtime has the request
	}{
		{"offline", "gone", "failed|unavailable", nil, false},
		{"another server", "stranger", "failed|unavailable", nil, false},
		{"no message", "prod", "unknown|unknown", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "{") }, false},
		{"error without a code", "prod", "failed|unavailable", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) }, false},
		{"cut off", "prod", "unknown|unknown", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(rw, "{}")
			_ = http.NewResponseController(rw).Flush()
			panic(http.ErrAbortHandler)
		}, false},
		{"caller is gone", "prod", "unknown|canceled", nil, true},
		{"endless", "prod", "unknown|unknown", func(rw http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = rw.Write(make([]byte, 1<<16))
			}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			arrived := make(chan struct{}, 1)
			w.reply(func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				_, _ = io.Copy(io.Discard, r.Body) // the server sees that the caller is gone only then
				arrived <- struct{}{}
				switch {
				case c.runtimeSends != nil:
					c.runtimeSends(rw, r)
				case c.gone:
					<-r.Context().Done()
				}
			})
			conn := send(c.runtime)
			if c.gone {
				<-arrived
				if c.runtimeSends != nil {
					_, _ = io.CopyN(io.Discard, conn, 4<<20)
				}
			} else if response, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
			}
			_ = conn.Close()
			got := w.awaitEntries(t, n+1)[n]
			if got.Target != "application/"+c.runtime+"/shop" || got.Outcome+"|"+got.Code != c.want {
				t.Errorf("got %s, want %s", line(got), c.want)
			}
		})
	}
}

// Nothing reaches a runtime whose message the platform cannot read.
func TestUnreadableChanges(t *testing.T) {
	w := newWorld(t, func(w *world) { w.unary = time.Second })
	for _, c := range []struct {
		name, content, encoding, body string
		want                          int
	}{
		{"no JSON", "application/json", "", "{", 400},
		{"name twice", "application/json", "", `{"ref":{"name":"a","name":"b"}}`, 400},
		{"no message", "application/proto", "", "\xff\xff", 400},
		{"compressed twice", "application/json", "br", "{}", 400},
		{"not gzip", "application/json", "gzip", "{}", 400},
		{"a stream", "application/connect+json", "", "\x00\x00\x00\x00\x02{}", 200}, // as below
		{"text", "text/plain", "", "{}", 400},
		{"two messages", "application/grpc-web+json", "", "\x00\x00\x00\x00\x02{}\x00\x00\x00\x00\x02{}", 200}, // gRPC has its status elsewhere
		{"too large", "application/json", "", `{"revision":"` + strings.Repeat("x", 2<<20) + `"}`, 413},
	} {
		response, body := w.call(t, http.MethodPost, "/runtimes/prod"+syncPath, bearer(w.admin), header("Content-Type", c.content), header("Content-Encoding", c.encoding), func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(c.body)), int64(len(c.body))
			if c.encoding == "" {
				r.Header.Del("Content-Encoding")
			}
		})
		if response.StatusCode != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, response.StatusCode, body, c.want)
		}
	}
	// A body that does not come ends with the time for a request.
	reader, writer := io.Pipe()
	defer writer.Close()
	go func() { _, _ = io.WriteString(writer, "{") }()
	response, body := w.call(t, http.MethodPost, "/runtimes/prod"+syncPath, bearer(w.admin), func(r *http.Request) { r.Body, r.ContentLength = reader, -1 })
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("slow: %d %s", response.StatusCode, body)
	}
	if got := w.received(); len(got) != 0 {
		t.Errorf("%d requests reached the runtime", len(got))
	}
}

// Objects of all services are named; secrets are in no entry.
func TestChangesOfSettings(t *testing.T) {
	w := newWorld(t)
	const service = "/app-proxy/slipway.runtime.v1."
	w.reply(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"commit":"c0ffee"}`)
	})
	user := w.key(t, store.RoleOperator, identity.ScopeAll)
	for _, c := range []struct{ procedure, body, want string }{
		{"GitSourceService/CreateGitSource", `{"gitSource":{"name":"shop","repoUrl":"https://canary@x/y","revision":"main","project":"web"},"registerWebhook":true}`,
			"git-source.create|git-source/shop|prod|web||c0ffee|ok|ok|register_webhook"},
		{"GitSourceService/DeleteGitSource", `{"name":"shop"}`, "git-source.delete|git-source/shop|prod|||c0ffee|ok|ok|"},
		{"ClusterService/AddCluster", `{"name":"east","token":"canary","certificateAuthority":"Y2FuYXJ5","labels":{"canary":"canary"}}`,
			"cluster.add|cluster/east|prod||||ok|ok|"},
		{"ClusterService/RemoveCluster", `{"server":"https://user:canary@east.example.com"}`, "cluster.remove|cluster/https://east.example.com|prod||||ok|ok|"},
		{"IntegrationService/Register", `{"integration":"github","token":"canary","username":"canary"}`, "integration.register|integration/github|prod||||ok|ok|"},
		{"IntegrationService/AddIntegration", `{"integration":{"name":"github"}}`, "integration.add|integration/github|prod||||ok|ok|"},
		{"IntegrationService/FinishOAuth", `{"state":"canary","code":"canary"}`, "integration.finish-oauth|runtime/prod|prod||||ok|ok|"},
		{"IntegrationService/SetRuntimeCredentials", `{"token":"canary","sshPrivateKey":"canary"}`, "integration.set-runtime-credentials|runtime/prod|prod||||ok|ok|"},
	} {
		before := len(w.entries(t))
		response, body := w.call(t, http.MethodPost, "/runtimes/prod"+service+c.procedure, bearer(w.admin), func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(c.body)), int64(len(c.body))
		})
		if response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", c.procedure, response.StatusCode, body)
		}
		programs.Until(t, "the entry of "+c.procedure, func() bool {
			entries := w.entries(t)
			return len(entries) > before && entries[len(entries)-1].Outcome != identity.OutcomeBegun
		})
		entries := w.entries(t)
		last := entries[len(entries)-1]
		if line(last) != c.want {
			t.Errorf("got  %s\nwant %s", line(last), c.want)
		}
		if strings.Contains(fmt.Sprintf("%+v", entries), "canary") {
			t.Errorf("a secret is in the log: %+v", entries)
		}
		// An admin's change is recorded before it is sent, too.
		if first := entries[before]; len(entries)-before == 2 && (first.Outcome != identity.OutcomeBegun || first.Target != last.Target) ||
			len(entries)-before != 2 && !strings.HasSuffix(c.procedure, "Register") && !strings.HasSuffix(c.procedure, "OAuth") {
			t.Errorf("%s: the entries are %+v", c.procedure, entries[before:])
		}
	}
	before := len(w.entries(t))
	w.call(t, http.MethodPost, "/runtimes/prod"+service+"ClusterService/AddCluster", bearer(user))
	w.call(t, http.MethodPost, "/runtimes/prod"+list, bearer(w.admin))
	if got := line(w.awaitEntries(t, before+1)[before]); got != "cluster.add|runtime/prod|prod||||denied|permission_denied|this needs the role admin, and yours is operator: an admin of the account can change it" {
		t.Errorf("got %s", got)
	}
}
