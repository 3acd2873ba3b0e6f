package history_test

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/apprights"
	"slipway.dev/slipway/internal/platform/history"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/platform/store/pgtest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// world is the service behind a real server, with one account and a runtime.
type world struct {
	store   *store.Store
	history *history.History
	url     string
	account store.Account
	runtime store.Runtime
	now     time.Time
}

const day = 24 * time.Hour

// onBoth runs a test with each database.
func onBoth(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newWorld(t, "sqlite://"+filepath.Join(t.TempDir(), "p.db"))) })
	t.Run("postgres", func(t *testing.T) { test(t, newWorld(t, pgtest.URL(t))) })
}

func newWorld(t *testing.T, database string) *world {
	t.Helper()
	w := &world{now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	w.store = must.Get(store.Open(t.Context(), store.Options{URL: database, Now: func() time.Time { return w.now }}))(t)
	w.account = must.Get(w.store.CreateAccount(t.Context(), store.Account{Name: "acme"}))(t)
	// The team may see the Applications of its project.
	state := must.Get(proto.Marshal(&platformv1.HeartbeatRequest{Rights: &platformv1.RightsPolicy{Projects: []*platformv1.ProjectRights{{
		Project: "shop", Roles: []*platformv1.ProjectRole{{Name: "team", Groups: []string{"team"}, Policies: []string{"p, proj:shop:team, applications, get, shop/*, allow"}}},
	}}}}))(t)
	w.runtime = must.Get(w.store.CreateRuntime(t.Context(), store.Runtime{AccountID: w.account.ID, Name: "prod", Namespace: "argocd", State: state}))(t)
	w.history = w.replica(t, "one")
	callers := must.Get(identity.New(t.Context(), identity.Options{
		Store: w.store, Key: secret.New(strings.Repeat("k", 32)), PublicURL: &url.URL{Scheme: "http", Host: "127.0.0.1"},
	}))(t)
	mux := http.NewServeMux()
	for path, handler := range w.history.Handlers(callers.HandlerOptions(history.MaxMessage)) {
		mux.Handle(path, handler)
	}
	server := httptest.NewServer(mux)
	w.url = server.URL
	t.Cleanup(func() {
		server.Close()
		must.Do(t, w.store.Close())
	})
	return w
}

// replica is another process with the same database.
func (w *world) replica(t *testing.T, name string) *history.History {
	t.Helper()
	return must.Get(history.New(history.Options{
		Store: w.store, Policies: apprights.New(nil), Retention: history.Retention{Deployments: 10 * day, Traffic: 20 * day}, Replica: name, Now: func() time.Time { return w.now },
	}))(t)
}

// as gives the service as a user of a role and groups.
func (w *world) as(t *testing.T, role store.Role, groups ...string) platformv1connect.HistoryServiceClient {
	t.Helper()
	user := must.Get(w.store.CreateUser(t.Context(), store.User{AccountID: w.account.ID, Email: rand.Text() + "@example.com", Role: role, Groups: groups}))(t)
	value := strings.ToLower(rand.Text() + rand.Text())
	hash := sha256.Sum256([]byte(value))
	key := must.Get(w.store.CreateKey(t.Context(), store.Key{AccountID: w.account.ID, UserID: user.ID, Name: "k", Prefix: "slw_", Hash: hash[:], Scopes: []string{identity.ScopeAll}}))(t)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return platformv1connect.NewHistoryServiceClient(&http.Client{Transport: programs.Bearer("slw_"+key.ID+"_"+value, transport)}, w.url)
}

// deploy reports syncs of Applications, each as project/name revision age in days.
func (w *world) deploy(t *testing.T, lines ...string) {
	t.Helper()
	changes := []store.ReportChange{{Number: 1, ResyncBegin: true}}
	for _, line := range lines {
		var place, revision string
		var age int
		must.Get(fmt.Sscan(line, &place, &revision, &age))(t)
		project, name, _ := strings.Cut(place, "/")
		at := w.now.Add(-time.Duration(age) * day)
		changes = append(changes, store.ReportChange{Number: int64(len(changes) + 1), Application: &store.Application{
			Namespace: "argocd", Name: name, UID: name, Project: project,
			Syncs: []store.Sync{{Revision: revision, Succeeded: true, StartedAt: at.Add(-time.Minute), FinishedAt: at, CommittedAt: at.Add(-time.Hour)}},
		}})
	}
	changes = append(changes, store.ReportChange{Number: int64(len(changes) + 1), ResyncEnd: true})
	must.Get(w.store.ApplyReport(t.Context(), w.runtime.ID, rand.Text(), changes))(t)
}

func list(t *testing.T, client platformv1connect.HistoryServiceClient, filter *platformv1.DeploymentFilter) string {
	t.Helper()
	var names []string
	request := &platformv1.ListDeploymentsRequest{Filter: filter, PageSize: 1}
	for {
		response := must.Get(client.ListDeployments(t.Context(), connect.NewRequest(request)))(t).Msg
		for _, one := range response.GetDeployments() {
			names = append(names, one.GetRuntime()+"/"+one.GetProject()+"/"+one.GetName()+"@"+one.GetRevision())
		}
		if request.PageToken = response.GetNextPageToken(); request.GetPageToken() == "" {
			slices.Sort(names)
			return strings.Join(names, " ")
		}
	}
}

// TestRights: lists and sums have what concerns Applications that the caller may get.
func TestRights(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.deploy(t, "shop/web A 1", "bank/vault B 2", "shop/db C 3")
		for _, tt := range []struct {
			role        store.Role
			groups      []string
			want        string
			deployments int32
		}{
			{store.RoleViewer, nil, "prod/bank/vault@B prod/shop/db@C prod/shop/web@A", 3},
			{store.RoleRestricted, []string{"team"}, "prod/shop/db@C prod/shop/web@A", 2},
			{store.RoleRestricted, nil, "", 0},
		} {
			client := w.as(t, tt.role, tt.groups...)
			if got := list(t, client, nil); got != tt.want {
				t.Errorf("%s %v: got %q, want %q", tt.role, tt.groups, got, tt.want)
			}
			figures := must.Get(client.GetDora(t.Context(), connect.NewRequest(&platformv1.GetDoraRequest{
				Filter: &platformv1.DeploymentFilter{Until: timestamppb.New(w.now)}, GroupBy: platformv1.DoraGroup_DORA_GROUP_APPLICATION,
			})))(t).Msg
			if figures.GetTotal().GetDeployments() != tt.deployments || len(figures.GetGroups()) != int(tt.deployments) {
				t.Errorf("%s %v: the figures are %v", tt.role, tt.groups, figures)
			}
			if tt.deployments > 0 && figures.GetTotal().GetLeadTime().AsDuration() != time.Hour {
				t.Errorf("the lead time is %v", figures.GetTotal().GetLeadTime())
			}
		}
		// A request reads a bounded number of rows that the caller may not see, and
		// the token continues.
		var others []string
		for i := range 25 {
			others = append(others, fmt.Sprintf("bank/vault%d A 0", i))
		}
		w.deploy(t, others...)
		team := w.as(t, store.RoleRestricted, "team")
		first := must.Get(team.ListDeployments(t.Context(), connect.NewRequest(&platformv1.ListDeploymentsRequest{PageSize: 1})))(t).Msg
		if len(first.GetDeployments()) != 0 || first.GetNextPageToken() == "" {
			t.Errorf("the first page is %v", first)
		}
		if got := list(t, team, nil); got != "prod/shop/db@C prod/shop/web@A" {
			t.Errorf("the pages have %q", got)
		}
		// Few of them are read in one request.
		filter := &platformv1.DeploymentFilter{Until: timestamppb.New(w.now.Add(-day))}
		first = must.Get(team.ListDeployments(t.Context(), connect.NewRequest(&platformv1.ListDeploymentsRequest{PageSize: 1, Filter: filter})))(t).Msg
		if len(first.GetDeployments()) != 1 || first.GetDeployments()[0].GetName() != "db" {
			t.Errorf("the page behind a row of others is %v", first)
		}
		// What each role may call at all.
		if _, err := w.as(t, store.RoleRestricted).GetHistoryStatus(t.Context(), connect.NewRequest(&platformv1.GetHistoryStatusRequest{})); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("a restricted user sees the status: %v", err)
		}
	})
}

func TestFilters(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.deploy(t, "shop/web A 1", "bank/vault B 2", "shop/db C 3")
		viewer := w.as(t, store.RoleViewer)
		for filter, want := range map[*platformv1.DeploymentFilter]string{
			{Project: "shop"}: "prod/shop/db@C prod/shop/web@A",
			{Runtime: "prod", Namespace: "argocd", Name: "web"}: "prod/shop/web@A",
			{Since: timestamppb.New(w.now.Add(-2 * day))}:       "prod/bank/vault@B prod/shop/web@A",
			{Until: timestamppb.New(w.now.Add(-2 * day))}:       "prod/shop/db@C",
		} {
			if got := list(t, viewer, filter); got != want {
				t.Errorf("%v: got %q, want %q", filter, got, want)
			}
		}
		_, err := viewer.ListDeployments(t.Context(), connect.NewRequest(&platformv1.ListDeploymentsRequest{Filter: &platformv1.DeploymentFilter{Runtime: "other"}}))
		if connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("a runtime that is not there: %v", err)
		}
		for span, valid := range map[time.Duration]bool{0: false, -day: false, 1100 * day: true, 1100*day + 1: false} {
			_, err := viewer.GetDora(t.Context(), connect.NewRequest(&platformv1.GetDoraRequest{Filter: &platformv1.DeploymentFilter{
				Since: timestamppb.New(w.now.Add(-span)), Until: timestamppb.New(w.now),
			}}))
			if (err == nil) != valid || !valid && connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("a span of %v: %v", span, err)
			}
		}
	})
}

// TestCleanForever: a retention of zero keeps everything.
func TestCleanForever(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.deploy(t, "shop/web A 4000")
		forever := must.Get(history.New(history.Options{Store: w.store, Policies: apprights.New(nil), Replica: "one", Now: func() time.Time { return w.now }}))(t)
		must.Get(forever.Clean(t.Context()))(t)
		if got := list(t, w.as(t, store.RoleViewer), nil); got != "prod/shop/web@A" {
			t.Errorf("%q is left", got)
		}
	})
}

// TestClean: one replica deletes what is older than the retention, and another one when
// the first is gone.
func TestClean(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		two := w.replica(t, "two")
		w.deploy(t, "shop/old A 11", "shop/edge B 10", "shop/new C 9")
		viewer := w.as(t, store.RoleViewer)
		status := func() *platformv1.GetHistoryStatusResponse {
			t.Helper()
			return must.Get(viewer.GetHistoryStatus(t.Context(), connect.NewRequest(&platformv1.GetHistoryStatusRequest{})))(t).Msg
		}
		if s := status(); s.GetBehind() || s.GetCleanedAt() != nil || s.GetDeploymentsKept().AsDuration() != 10*day {
			t.Errorf("before: %v", s)
		}
		if mine := must.Get(w.history.Clean(t.Context()))(t); !mine {
			t.Error("the first replica does not have the task")
		}
		if mine := must.Get(two.Clean(t.Context()))(t); mine {
			t.Error("both replicas have the task")
		}
		if got := list(t, viewer, nil); got != "prod/shop/edge@B prod/shop/new@C" {
			t.Errorf("%q is left", got)
		}
		if s := status(); s.GetBehind() || !s.GetCleanedAt().AsTime().Equal(w.now) {
			t.Errorf("after: %v", s)
		}
		w.now = w.now.Add(day)
		if s := status(); !s.GetBehind() {
			t.Errorf("a day later: %v", s)
		}
		if mine := must.Get(two.Clean(t.Context()))(t); !mine {
			t.Error("the second replica does not take over")
		}
		if got := list(t, viewer, nil); got != "prod/shop/new@C" {
			t.Errorf("%q is left", got)
		}
		if s := status(); s.GetBehind() || !s.GetCleanedAt().AsTime().Equal(w.now) {
			t.Errorf("after the second: %v", s)
		}
	})
}
