package fleet_test

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/platformv1"
)

func begin(number int64) *platformv1.ReportEvent {
	return &platformv1.ReportEvent{Number: number, Event: &platformv1.ReportEvent_ResyncBegin{ResyncBegin: true}}
}

func end(number int64) *platformv1.ReportEvent {
	return &platformv1.ReportEvent{Number: number, Event: &platformv1.ReportEvent_ResyncEnd{ResyncEnd: true}}
}

// application is a synced one with the given health.
func application(number int64, name string, health ...string) *platformv1.ReportEvent {
	return &platformv1.ReportEvent{Number: number, At: timestamppb.New(time.Now()), Event: &platformv1.ReportEvent_Application{Application: &platformv1.Application{
		Runtime: "somebody-else", Namespace: "argocd", Name: name, Uid: "uid-" + name, Sync: "Synced",
		Health: strings.Join(append(health, ""), ""), Labels: map[string]string{"team": "blue"}, Stale: true,
	}}}
}

func deleted(number int64, name string) *platformv1.ReportEvent {
	return &platformv1.ReportEvent{Number: number, Event: &platformv1.ReportEvent_Deleted{Deleted: &platformv1.Application{Namespace: "argocd", Name: name}}}
}

func report(t *testing.T, agent clients, stream string, events ...*platformv1.ReportEvent) *platformv1.ReportResponse {
	t.Helper()
	answer := must.Get(agent.agent.Report(t.Context(), connect.NewRequest(&platformv1.ReportRequest{Stream: stream, Events: events})))(t)
	return answer.Msg
}

func listApplications(t *testing.T, w *world, given *platformv1.ListApplicationsRequest) *platformv1.ListApplicationsResponse {
	t.Helper()
	answer := must.Get(w.admin.applications.ListApplications(t.Context(), connect.NewRequest(given)))(t)
	return answer.Msg
}

// names of applications with a mark for those that may be old.
func names(list *platformv1.ListApplicationsResponse) string {
	var out []string
	for _, application := range list.GetApplications() {
		name := application.GetRuntime() + "/" + application.GetName()
		if application.GetStale() {
			name += "?"
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

// TestReport: reports are stored once, a gap requests a resync, and what may be old
// is marked.
func TestReport(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, _ := w.join(t, "prod", "east")
		heartbeat(t, agent, beat())
		expect := func(step string, answer *platformv1.ReportResponse, stored int64, resync bool, shown string) {
			t.Helper()
			if answer.GetStored() != stored || answer.GetResync() != resync {
				t.Errorf("%s: answered %v, want %d %v", step, answer, stored, resync)
			}
			w.clock.pass(1100 * time.Millisecond) // what is remembered of a runtime
			if got := names(listApplications(t, w, &platformv1.ListApplicationsRequest{})); got != shown {
				t.Errorf("%s: shown %q, want %q", step, got, shown)
			}
		}
		expect("without a beginning", report(t, agent, "s", application(5, "shop")), 0, true, "")
		expect("resyncing", report(t, agent, "s", begin(1), application(2, "shop")), 2, false, "prod/shop?")
		expect("resynced", report(t, agent, "s", application(3, "web"), end(4)), 4, false, "prod/shop prod/web")
		expect("again", report(t, agent, "s", application(3, "web"), end(4), deleted(5, "shop")), 5, false, "prod/web")
		expect("sent twice", report(t, agent, "s", deleted(5, "shop"), application(6, "api")), 6, false, "prod/api prod/web")
		expect("a gap", report(t, agent, "s", application(9, "new")), 6, true, "prod/api prod/web")
		expect("the resync", report(t, agent, "s", begin(10), application(11, "new"), end(12)), 12, false, "prod/new")
		expect("another life", report(t, agent, "t", application(1, "x")), 0, true, "prod/new")
		w.clock.pass(time.Minute)
		expect("offline", report(t, agent, "s"), 12, false, "prod/new?")
	})
}

// TestReportRefuses: what does not fit is refused as a whole.
func TestReportRefuses(t *testing.T) {
	w := newWorld(t, "sqlite://"+t.TempDir()+"/p.db")
	agent, _ := w.join(t, "prod", "east")
	large := application(2, "shop")
	large.GetApplication().HealthMessage = strings.Repeat("x", 300<<10)
	many := make([]*platformv1.ReportEvent, 1001)
	for i := range many {
		many[i] = begin(int64(i + 1))
	}
	for name, c := range map[string]struct {
		stream string
		events []*platformv1.ReportEvent
		part   string
	}{
		"no stream":   {"", nil, "stream"},
		"no name":     {"s", []*platformv1.ReportEvent{begin(1), application(2, "")}, "event 2"},
		"large":       {"s", []*platformv1.ReportEvent{begin(1), large}, "at most"},
		"many":        {"s", many, "1001 events"},
		"not known":   {"s", []*platformv1.ReportEvent{{Number: 1}}, "unknown type"},
		"not deleted": {"s", []*platformv1.ReportEvent{begin(1), deleted(2, "")}, "without a name"},
	} {
		_, err := agent.agent.Report(t.Context(), connect.NewRequest(&platformv1.ReportRequest{Stream: c.stream, Events: c.events}))
		wantError(t, name, err, connect.CodeInvalidArgument, c.part)
	}
	_, err := w.admin.agent.Report(t.Context(), connect.NewRequest(&platformv1.ReportRequest{Stream: "s"}))
	wantError(t, "an admin", err, connect.CodePermissionDenied, "")
}

// TestApplicationFilters: lists can be narrowed, and pages followed.
func TestApplicationFilters(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, _ := w.join(t, "prod", "east")
		other, _ := w.join(t, "test", "west")
		heartbeat(t, agent, beat())
		heartbeat(t, other, beat())
		report(t, agent, "s", begin(1), application(2, "shop", "Healthy"), application(3, "web", "Degraded"), end(4))
		report(t, other, "s", begin(1), application(2, "shop", "Healthy"), end(3))
		for name, c := range map[string]struct {
			given *platformv1.ListApplicationsRequest
			want  string
		}{
			"all":     {&platformv1.ListApplicationsRequest{}, "prod/shop test/shop prod/web"},
			"runtime": {&platformv1.ListApplicationsRequest{Runtime: "test"}, "test/shop"},
			"health":  {&platformv1.ListApplicationsRequest{Health: "Degraded"}, "prod/web"},
			"query":   {&platformv1.ListApplicationsRequest{Query: "WE"}, "prod/web"},
			"labels":  {&platformv1.ListApplicationsRequest{Labels: []string{"team=blue"}, Runtime: "prod"}, "prod/shop prod/web"},
			"none":    {&platformv1.ListApplicationsRequest{Labels: []string{"team=red"}}, ""},
		} {
			got := strings.Fields(names(listApplications(t, w, c.given)))
			if !sameWords(got, strings.Fields(c.want)) {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
		}
		first := listApplications(t, w, &platformv1.ListApplicationsRequest{PageSize: 2})
		second := listApplications(t, w, &platformv1.ListApplicationsRequest{PageSize: 2, PageToken: first.GetNextPageToken()})
		if len(first.GetApplications()) != 2 || len(second.GetApplications()) != 1 || first.GetTotal() != 3 || second.GetNextPageToken() != "" {
			t.Errorf("pages: %v, %v", first, second)
		}
		for name, given := range map[string]*platformv1.ListApplicationsRequest{
			"label": {Labels: []string{"team"}}, "token": {PageToken: "?"}, "query": {Query: strings.Repeat("x", 300)},
		} {
			_, err := w.admin.applications.ListApplications(t.Context(), connect.NewRequest(given))
			wantError(t, name, err, connect.CodeInvalidArgument, "")
		}
		_, err := w.admin.applications.ListApplications(t.Context(), connect.NewRequest(&platformv1.ListApplicationsRequest{Runtime: "nope"}))
		wantError(t, "runtime", err, connect.CodeNotFound, "nope")
	})
}

func sameWords(a, b []string) bool {
	count := map[string]int{}
	for _, word := range a {
		count[word]++
	}
	for _, word := range b {
		count[word]--
	}
	for _, left := range count {
		if left != 0 {
			return false
		}
	}
	return true
}
