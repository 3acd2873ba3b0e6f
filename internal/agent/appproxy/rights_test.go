package appproxy_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// verbs calls one procedure for each verb on an Application.
func verbs(apps runtimev1connect.ApplicationServiceClient, ref *runtimev1.ApplicationRef) map[permission.Verb]func(context.Context) error {
	return map[permission.Verb]func(context.Context) error{
		permission.Get: func(ctx context.Context) error {
			_, err := apps.GetApplication(ctx, connect.NewRequest(&runtimev1.GetApplicationRequest{Ref: ref}))
			return err
		},
		permission.Logs: func(ctx context.Context) error {
			stream, err := apps.Logs(ctx, connect.NewRequest(&runtimev1.LogsRequest{Ref: ref}))
			if err != nil {
				return err
			}
			defer stream.Close()
			for stream.Receive() {
			}
			return stream.Err()
		},
		permission.Sync: func(ctx context.Context) error {
			_, err := apps.Refresh(ctx, connect.NewRequest(&runtimev1.RefreshRequest{Ref: ref}))
			return err
		},
		permission.Override: func(ctx context.Context) error {
			_, err := apps.Sync(ctx, connect.NewRequest(&runtimev1.SyncRequest{Ref: ref, Revision: "refs/pull/7/head", DryRun: true}))
			return err
		},
		permission.Rollback: func(ctx context.Context) error {
			_, err := apps.Rollback(ctx, connect.NewRequest(&runtimev1.RollbackRequest{Ref: ref, HistoryId: 7}))
			return err
		},
		permission.Delete: func(ctx context.Context) error {
			_, err := apps.DeleteApplication(ctx, connect.NewRequest(&runtimev1.DeleteApplicationRequest{Ref: ref}))
			return err
		},
	}
}

// permitted reports whether a call was permitted, whatever came of it then.
func permitted(err error) bool {
	return err == nil || connect.CodeOf(err) != connect.CodePermissionDenied
}

// gitSource is an Application that is a part of the runtime.
const gitSource = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: source, labels: {slipway.dev/entity: git-source}}
spec:
  project: default
  source: {repoURL: https://git.example/apps.git, path: ".", targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: NAMESPACE}
`

// TestRoles: what each role does with an Application, and with those of the
// runtime, which are for admins.
func TestRoles(t *testing.T) {
	w := newWorld(t)
	w.application(t, "shop", "https://git.example/shop.git")
	w.apply(t, gitSource)
	for _, role := range []string{permission.RoleViewer, permission.RoleOperator, permission.RoleAdmin} {
		for _, name := range []string{"shop", "source"} {
			for verb, call := range verbs(w.appsAs(t, role), &runtimev1.ApplicationRef{Name: name}) {
				want := verb.Rule().Role(role)
				if name == "source" && verb != permission.Get {
					want = role == permission.RoleAdmin
				}
				err := call(t.Context())
				if permitted(err) != want {
					t.Errorf("%s of %s as %s: %v", verb, name, role, err)
				}
				if !want && (err == nil || !strings.Contains(err.Error(), "you lack the right ") || !strings.Contains(err.Error(), "admin of the account")) {
					t.Errorf("%s of %s as %s does not name the right and who gives it: %v", verb, name, role, err)
				}
			}
		}
	}
}

// TestPolicies: role, the platform's rules in the token and the runtime's own
// policy decide together, and a deny wins.
func TestPolicies(t *testing.T) {
	config, refused := rights.Parse("p, night, applications, sync, default/shop, deny\ng, dev, role:dev\np, role:dev, applications, rollback, default/*, allow\np, role:dev, applications, get, */*, allow", "policy.csv")
	project, more := rights.ParseProject("default", []rights.ProjectRole{{Name: "team", Groups: []string{"team"}, Policies: []string{"p, proj:default:team, applications, *, default/*, allow"}}}, rights.Glob)
	if len(refused)+len(more) > 0 {
		t.Fatal(refused, more)
	}
	w := newWorld(t, func(o *appproxy.Options) {
		o.Rights = func() (*rights.Policy, error) { return rights.Merge(config, project), nil }
	})
	w.application(t, "shop", "https://git.example/shop.git")
	w.apply(t, gitSource)
	for _, tt := range []struct {
		name   string
		claims wire.RuntimeClaims
		on     string
		want   string // what GetApplication returns as rights
	}{
		{"a role of the project", wire.RuntimeClaims{Role: "restricted", Groups: []string{"team"}}, "shop", "get sync override rollback action delete"},
		{"a role of the project, of the runtime", wire.RuntimeClaims{Role: "restricted", Groups: []string{"team"}}, "source", "get"},
		{"a rule of the runtime", wire.RuntimeClaims{Role: "restricted", Groups: []string{"dev"}}, "shop", "get rollback"},
		{"beside a role", wire.RuntimeClaims{Role: "viewer", Groups: []string{"dev"}}, "shop", "get rollback"},
		{"a deny", wire.RuntimeClaims{Role: "operator", Groups: []string{"night"}}, "shop", "get override action logs"},
		{"a deny for an admin", wire.RuntimeClaims{Role: "admin", Groups: []string{"night"}}, "shop", "get override action logs delete"},
		{"a rule of the platform", wire.RuntimeClaims{Role: "restricted", Policy: wire.PolicyExcerpt{Text: "p,ada@example.com,applications,get,default/*,allow\np,ada@example.com,logs,get,default/*,allow\n"}}, "shop", "get logs"},
		{"a deny of the platform", wire.RuntimeClaims{Role: "admin", Policy: wire.PolicyExcerpt{Text: "p,slipway:admin,applications,delete,^default/,deny\n", Mode: "regex"}}, "shop", "get sync override rollback action logs"},
		{"the default of the platform", wire.RuntimeClaims{Role: "restricted", Policy: wire.PolicyExcerpt{Default: "role:readonly"}}, "shop", "get logs"},
		{"nothing", wire.RuntimeClaims{Role: "restricted", Groups: []string{"slipway:admin", "role:admin"}}, "shop", ""},
	} {
		apps := w.appsWith(t, tt.claims)
		ref := &runtimev1.ApplicationRef{Name: tt.on}
		got, err := apps.GetApplication(t.Context(), connect.NewRequest(&runtimev1.GetApplicationRequest{Ref: ref}))
		if tt.want == "" {
			if connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err != nil || !slices.Equal(got.Msg.GetApplication().GetRights(), strings.Fields(tt.want)) {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
		for verb, call := range verbs(apps, ref) {
			// Deleting it would end the test; a sync to another revision takes both.
			if verb == permission.Delete && strings.Contains(tt.want, "delete") {
				continue
			}
			want := slices.Contains(strings.Fields(tt.want), string(verb))
			if verb == permission.Override {
				want = want && slices.Contains(strings.Fields(tt.want), string(permission.Sync))
			}
			if err := call(t.Context()); permitted(err) != want {
				t.Errorf("%s: %s: %v", tt.name, verb, err)
			}
		}
	}
}

// TestPolicyIsNotRead: while the runtime does not know its policy, a request is
// refused, of an admin too.
func TestPolicyIsNotRead(t *testing.T) {
	w := newWorld(t, func(o *appproxy.Options) {
		o.Rights = func() (*rights.Policy, error) { return nil, io.ErrUnexpectedEOF }
	})
	w.application(t, "shop", "https://git.example/shop.git")
	_, err := w.appsAs(t, permission.RoleAdmin).GetApplication(t.Context(), connect.NewRequest(&runtimev1.GetApplicationRequest{Ref: shopRef()}))
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("got %v", err)
	}
}

// TestNothingWithoutRights: no procedure about Applications gives anything to a
// user without rights. The procedures are those of the table of permissions, so
// that a new one which forgets to check fails here.
func TestNothingWithoutRights(t *testing.T) {
	w := newWorld(t)
	w.application(t, "shop", "https://git.example/canary-value-4711.git")
	client := w.httpWith(t, wire.RuntimeClaims{Role: permission.RoleRestricted})
	services := map[string]protoreflect.ServiceDescriptor{
		"ApplicationService": runtimev1.File_slipway_runtime_v1_application_proto.Services().ByName("ApplicationService"),
		"ReleaseService":     runtimev1.File_slipway_runtime_v1_release_proto.Services().ByName("ReleaseService"),
		"PromotionService":   runtimev1.File_slipway_runtime_v1_promotion_proto.Services().ByName("PromotionService"),
	}
	checked := 0
	for _, procedure := range permission.Procedures() {
		rule, _ := permission.Of(procedure)
		service, name, _ := strings.Cut(strings.TrimPrefix(procedure, "/slipway.runtime.v1."), "/")
		if rule.Verb == "" || strings.HasPrefix(procedure, "/slipway.platform.") {
			continue
		}
		// internal/agent/gitsource tests its own.
		if strings.HasPrefix(procedure, "/slipway.runtime.v1.GitSourceService/") {
			continue
		}
		if services[service] == nil {
			t.Errorf("%s has a verb, and this test does not know its service", procedure)
			continue
		}
		checked++
		body := []byte(`{"ref":{"name":"shop"}}`)
		content := "application/json"
		if services[service].Methods().ByName(protoreflect.Name(name)).IsStreamingServer() {
			content = "application/connect+json"
			body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
		}
		isList := name == "ListApplications" || name == "ListPromotions"
		if isList {
			body = []byte(`{}`)
		}
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, w.address+"/app-proxy"+procedure, bytes.NewReader(body)))(t)
		request.Header.Set("Content-Type", content)
		response := must.Get(client.Do(request))(t)
		text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		_ = response.Body.Close()
		want := `"code":"not_found"`
		if isList {
			want = "{}"
		}
		if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), "canary") {
			t.Errorf("%s: %s %s, %v", procedure, response.Status, text, err)
		}
	}
	if checked < 15 {
		t.Errorf("only %d procedures were checked", checked)
	}
}

// TestWatchEndsWithTheRight: a stream of an Application ends when the user may
// not get it any more.
func TestWatchEndsWithTheRight(t *testing.T) {
	policy, refused := rights.Parse("p, dev, applications, get, default/*, allow", "policy.csv")
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	w := newWorld(t, func(o *appproxy.Options) { o.Rights = func() (*rights.Policy, error) { return policy, nil } })
	w.application(t, "shop", "https://git.example/shop.git")
	apps := w.appsWith(t, wire.RuntimeClaims{Role: permission.RoleRestricted, Groups: []string{"dev"}})
	stream := must.Get(apps.WatchApplication(t.Context(), connect.NewRequest(&runtimev1.WatchApplicationRequest{Ref: shopRef()})))(t)
	defer stream.Close()
	if !stream.Receive() || !slices.Equal(stream.Msg().GetApplication().GetRights(), []string{"get"}) {
		t.Fatalf("the first: %v, %v", stream.Msg(), stream.Err())
	}
	w.apply(t, `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: bank
  source: {repoURL: https://git.example/shop.git, path: ".", targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: NAMESPACE}
`)
	for stream.Receive() {
		if strings.Contains(string(stream.Msg().GetApplication().GetManifest()), `"project":"bank"`) {
			t.Fatal("the Application is shown after it left the project")
		}
	}
	if connect.CodeOf(stream.Err()) != connect.CodeNotFound {
		t.Errorf("the stream ended with %v", stream.Err())
	}
}
