package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// inProject is an application of a project.
func inProject(number int64, project, name string) *platformv1.ReportEvent {
	event := application(number, name)
	event.GetApplication().Namespace, event.GetApplication().Project = "slipway", project
	event.GetApplication().Rights = []string{"delete"} // a runtime gives no rights
	return event
}

// policyBeat is a heartbeat with a policy that gives a group a project.
func policyBeat(group string) *platformv1.HeartbeatRequest {
	message := beat()
	message.GitSources = []*platformv1.GitSourceSummary{
		{Name: "apps", Project: "shop"}, {Name: "db", Project: "shop"}, {Name: "vaults", Project: "bank"},
	}
	message.Rights = &platformv1.RightsPolicy{Projects: []*platformv1.ProjectRights{{Project: "shop", Roles: []*platformv1.ProjectRole{
		{Name: "team", Groups: []string{group}, Policies: []string{"p, proj:shop:team, applications, *, shop/*, allow"}},
		{Name: "makers", Groups: []string{"makers"}, Policies: []string{"p, proj:shop:makers, applications, create, shop/*, allow"}},
	}}}}
	return message
}

// TestApplicationsByRights: a list has the applications that the caller may get,
// by role and policies, with what the caller may do, and no count of others.
func TestApplicationsByRights(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, _ := w.join(t, "prod", "east")
		other, _ := w.join(t, "test", "west")
		heartbeat(t, agent, policyBeat("team"))
		heartbeat(t, other, beat())
		report(t, agent, "s", begin(1), inProject(2, "shop", "web"), inProject(3, "shop", "db"), inProject(4, "bank", "vault"), end(5))
		report(t, other, "s", begin(1), inProject(2, "shop", "copy"), end(3))
		for _, tt := range []struct {
			role   store.Role
			groups string
			want   string
			rights string
			total  int32
		}{
			{store.RoleAdmin, "", "test/copy prod/db prod/vault prod/web", "get sync override rollback action logs delete", 4},
			{store.RoleViewer, "", "test/copy prod/db prod/vault prod/web", "get", 4},
			{store.RoleViewer, "night", "test/copy prod/vault prod/web", "get", 3},
			{store.RoleRestricted, "", "", "", 0},
			{store.RoleRestricted, "team", "prod/db prod/web", "get sync override rollback action delete", 2},
			{store.RoleRestricted, "team,night", "prod/web", "get sync override rollback action delete", 1},
			{store.RoleRestricted, "oncall", "prod/vault", "get", 1},
		} {
			who := w.with(t, w.key(t, tt.role, identity.ScopeAll, strings.Split(tt.groups, ",")...))
			response := must.Get(who.applications.ListApplications(t.Context(), connect.NewRequest(&platformv1.ListApplicationsRequest{})))(t)
			if got := names(response.Msg); got != tt.want || response.Msg.GetTotal() != tt.total {
				t.Errorf("%s with %q: %q of %d, want %q of %d", tt.role, tt.groups, got, response.Msg.GetTotal(), tt.want, tt.total)
			}
			for _, one := range response.Msg.GetApplications() {
				if !slices.Equal(one.GetRights(), strings.Fields(tt.rights)) {
					t.Errorf("%s with %q may %v on %s", tt.role, tt.groups, one.GetRights(), one.GetName())
				}
			}
			var paged []string
			for page := (&platformv1.ListApplicationsRequest{PageSize: 1}); ; {
				response := must.Get(who.applications.ListApplications(t.Context(), connect.NewRequest(page)))(t)
				paged = append(paged, strings.Fields(names(response.Msg))...)
				if page.PageToken = response.Msg.GetNextPageToken(); page.GetPageToken() == "" {
					break
				}
			}
			if got := strings.Join(paged, " "); got != tt.want {
				t.Errorf("%s with %q, page by page: %q", tt.role, tt.groups, got)
			}
		}
	})
}

// TestWatchByRights: a watch has what the caller may get, and follows a change of
// the runtime's policy.
func TestWatchByRights(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, _ := w.join(t, "prod", "east")
		heartbeat(t, agent, policyBeat("team"))
		report(t, agent, "s", begin(1), inProject(2, "shop", "web"), inProject(3, "bank", "vault"), end(4))
		who := w.with(t, w.key(t, store.RoleRestricted, identity.ScopeAll, "team"))
		stream := must.Get(who.applications.WatchApplications(within(t), connect.NewRequest(&platformv1.WatchApplicationsRequest{})))(t)
		defer stream.Close()
		expect := func(want string) {
			t.Helper()
			for stream.Receive() {
				got := ""
				switch message := stream.Msg(); {
				case message.GetSynced():
					got = "synced"
				case message.GetDeleted() != nil:
					got = "-" + message.GetDeleted().GetName()
				case message.GetApplication() != nil:
					got = "+" + message.GetApplication().GetName()
				default:
					continue
				}
				if got != want {
					t.Fatalf("got %q, want %q", got, want)
				}
				return
			}
			t.Fatalf("the stream ended with %v, want %q", stream.Err(), want)
		}
		expect("+web")
		expect("synced")
		report(t, agent, "s", inProject(5, "bank", "other"), inProject(6, "shop", "api"))
		expect("+api")
		report(t, agent, "s", inProject(7, "bank", "api")) // moved to another project
		expect("-api")
		w.clock.pass(2 * time.Second) // what is remembered of a runtime
		heartbeat(t, agent, policyBeat("others"))
		expect("-web")
	})
}

// TestRuntimesByRights: restricted users see which runtimes there are, and not
// what they consist of. Every user sees the Git Sources that policies allow.
func TestRuntimesByRights(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, _ := w.join(t, "prod", "east")
		heartbeat(t, agent, policyBeat("team"))
		for _, tt := range []struct {
			role    store.Role
			group   string
			parts   bool
			sources string
		}{
			{store.RoleViewer, "", true, "apps db vaults"},
			{store.RoleViewer, "night", true, "apps vaults"},
			{store.RoleRestricted, "", false, ""},
			{store.RoleRestricted, "team", false, "apps db"},
			{store.RoleRestricted, "oncall", false, "vaults"},
		} {
			who := w.with(t, w.key(t, tt.role, identity.ScopeAll, tt.group))
			got := must.Get(who.runtimes.GetRuntime(t.Context(), connect.NewRequest(&platformv1.GetRuntimeRequest{Name: "prod"})))(t)
			list := must.Get(who.runtimes.ListRuntimes(t.Context(), connect.NewRequest(&platformv1.ListRuntimesRequest{})))(t)
			stream, err := who.runtimes.WatchRuntimes(within(t), connect.NewRequest(&platformv1.WatchRuntimesRequest{}))
			if err != nil || !stream.Receive() {
				t.Fatalf("no stream: %v, %v", err, stream.Err())
			}
			for _, one := range []*platformv1.Runtime{got.Msg.GetRuntime(), list.Msg.GetRuntimes()[0], stream.Msg().GetRuntime()} {
				var sources []string
				for _, source := range one.GetGitSources() {
					sources = append(sources, source.GetName())
				}
				if got := strings.Join(sources, " "); one.GetName() != "prod" || (len(one.GetComponents()) > 0) != tt.parts || got != tt.sources {
					t.Errorf("%s with %q sees %v", tt.role, tt.group, one)
				}
			}
			_ = stream.Close()
		}
	})
}

// TestCheckAccess: a check has the result that the calls have, and needs neither
// the Application nor the runtime to be there.
func TestCheckAccess(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, _ := w.join(t, "prod", "east")
		heartbeat(t, agent, policyBeat("team"))
		own := inProject(2, "shop", "apps")
		own.GetApplication().Labels = map[string]string{wire.EntityLabel: "git-source"}
		report(t, agent, "s", begin(1), own, end(3))
		for _, tt := range []struct {
			role        store.Role
			scope       string
			groups      string
			verb, place string
			want        string
		}{
			{store.RoleAdmin, identity.ScopeAll, "", "delete", "bank//vault", "yes: a rule allows it to "},
			{store.RoleOperator, identity.ScopeAll, "", "delete", "bank//vault", "no: no rule allows "},
			{store.RoleOperator, identity.ScopeAll, "", "sync", "shop//web", "yes: a rule allows it to "},
			{store.RoleOperator, identity.ScopeAll, "", "sync", "shop//apps", "no: the Application is a part of the runtime"},
			{store.RoleOperator, identity.ScopeAll, "", "get", "shop//apps", "yes: "},
			{store.RoleOperator, identity.ScopeAll, "", "sync", "shop/team/apps", "yes: "},
			{store.RoleAdmin, identity.ScopeAll, "", "sync", "shop//apps", "yes: "},
			{store.RoleOperator, identity.ScopeRead, "", "sync", "shop//web", "no: the scopes of the API key do not include it"},
			{store.RoleOperator, identity.ScopeRead, "", "logs", "shop//web", "yes: "},
			{store.RoleRestricted, identity.ScopeAll, "team", "delete", "shop//web", "yes: "},
			{store.RoleRestricted, identity.ScopeAll, "team", "logs", "shop//web", "no: no rule allows "},
			{store.RoleRestricted, identity.ScopeAll, "team", "create", "shop//more", "yes: a rule allows it to "},
			{store.RoleRestricted, identity.ScopeAll, "makers", "create", "shop//more", "yes: a rule allows it to "},
			{store.RoleRestricted, identity.ScopeAll, "makers", "update", "shop//apps", "no: the right get on the Application is missing"},
			{store.RoleRestricted, identity.ScopeAll, "team", "update", "shop//apps", "yes: a rule allows it to "},
			{store.RoleRestricted, identity.ScopeAll, "team", "delete", "shop//apps", "yes: a rule allows it to "},
			{store.RoleRestricted, identity.ScopeAll, "team", "sync", "shop//apps", "no: the Application is a part of the runtime"},
			{store.RoleOperator, identity.ScopeAll, "", "delete", "shop//apps", "no: no rule allows "},
			{store.RoleRestricted, identity.ScopeAll, "team", "create", "bank//more", "no: no rule allows "},
			{store.RoleOperator, identity.ScopeAll, "", "create", "shop//more", "no: no rule allows "},
			{store.RoleAdmin, identity.ScopeRead, "", "update", "shop//apps", "no: the scopes of the API key do not include it"},
			{store.RoleRestricted, identity.ScopeAll, "team", "sync", "bank//vault", "no: the right get on the Application is missing, without which there is no right sync: no rule allows "},
			{store.RoleRestricted, identity.ScopeAll, "", "get", "shop//web", "no: no rule allows "},
		} {
			who := w.with(t, w.key(t, tt.role, tt.scope, strings.Split(tt.groups, ",")...))
			place := strings.Split(tt.place, "/")
			response := must.Get(who.applications.CheckAccess(t.Context(), connect.NewRequest(&platformv1.CheckAccessRequest{
				Runtime: "prod", Verb: tt.verb, Project: place[0], Namespace: place[1], Name: place[2],
			})))(t)
			got := "no: "
			if response.Msg.GetAllowed() {
				got = "yes: "
			}
			if got += response.Msg.GetWhy(); !strings.HasPrefix(got, tt.want) || response.Msg.GetAllowed() && response.Msg.GetRule() == "" {
				t.Errorf("%+v: %q by %q", tt, got, response.Msg.GetRule())
			}
		}
		who := w.with(t, w.key(t, store.RoleAdmin, identity.ScopeAll))
		for _, wrong := range []*platformv1.CheckAccessRequest{
			{Runtime: "prod", Verb: "list", Project: "a", Name: "b"}, {Runtime: "prod", Verb: "get", Project: "a"}, {Runtime: "prod", Verb: "get", Name: "b"},
			{Verb: "get", Project: "a", Name: "b"},
		} {
			if _, err := who.applications.CheckAccess(t.Context(), connect.NewRequest(wrong)); connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("%v: %v", wrong, err)
			}
		}
	})
}
