package historycmd_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

func TestMain(m *testing.M) { clitest.Main(m) }

// sync is one that ended some hours ago and took a minute.
func sync(revision string, hours int, succeeded bool) *platformv1.ReportedSync {
	at := time.Now().Truncate(time.Second).Add(-time.Duration(hours) * time.Hour)
	return &platformv1.ReportedSync{
		Revision: revision, StartedAt: timestamppb.New(at.Add(-time.Minute)), FinishedAt: timestamppb.New(at), CommittedAt: timestamppb.New(at.Add(-90 * time.Minute)),
		Succeeded: succeeded, Initiator: "ada",
	}
}

// TestHistory: deployments that a runtime reported, and their figures.
func TestHistory(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	w.Login(t)
	agent := w.Registered(t, "prod")
	must.Get(agent.Report(t.Context(), connect.NewRequest(&platformv1.ReportRequest{Stream: "s", Events: []*platformv1.ReportEvent{
		{Number: 1, Event: &platformv1.ReportEvent_ResyncBegin{ResyncBegin: true}},
		{Number: 2, Event: &platformv1.ReportEvent_Application{Application: &platformv1.Application{
			Namespace: "argocd", Name: "shop", Uid: "u", Project: "sea",
			Syncs: []*platformv1.ReportedSync{sync("aaaaaaaaaa", 80, true), sync("bbbbbbbbbb", 70, true), sync("aaaaaaaaaa", 60, true), sync("cccccccccc", 50, false), sync("dddddddddd", 48, true)},
		}}},
		{Number: 3, Event: &platformv1.ReportEvent_ResyncEnd{ResyncEnd: true}},
	}})))(t)
	got := clitest.TrimLines(w.Must(t, "history deployments"))
	for _, want := range []string{
		"FINISHED RUNTIME APPLICATION PROJECT REVISION RESULT TOOK LEAD TIME BY",
		"prod argocd/shop sea dddddddddd succeeded 1m0s 1h30m ada", "prod argocd/shop sea cccccccccc failed", "sea aaaaaaaaaa rollback", "sea bbbbbbbbbb rolled back",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if first, last := strings.Index(got, "dddddddddd"), strings.Index(got, "bbbbbbbbbb"); first > last {
		t.Errorf("the newest is not the first:\n%s", got)
	}
	limited := w.Run(t, "history deployments --app argocd/shop --limit 2 -o json")
	var list platformList
	if err := json.Unmarshal([]byte(limited.Stdout), &list); err != nil || len(list.Deployments) != 2 || !strings.Contains(limited.Stderr, "the newest 2") {
		t.Errorf("limited: %v %+v", err, limited)
	}
	if got := w.Must(t, "history deployments --project land"); strings.Contains(got, "shop") {
		t.Errorf("another project has\n%s", got)
	}
	figures := clitest.TrimLines(w.Must(t, "history dora --since 10d"))
	for _, want := range []string{
		"GROUP DEPLOYMENTS PER DAY LEAD TIME FAILED ROLLED BACK FAILURE RATE TIME TO RESTORE OPEN",
		"prod: argocd/shop 3 0.30 1h30m 1 1 50.0% 6h0m 0", "total 3 0.30 1h30m 1 1 50.0% 6h0m 0",
	} {
		if !strings.Contains(figures, want) {
			t.Errorf("%q is missing in\n%s", want, figures)
		}
	}
	if got := clitest.TrimLines(w.Must(t, "history dora --since 10d --until 65h --by project")); !strings.Contains(got, "sea 2 ") {
		t.Errorf("until the rollback:\n%s", got)
	}
	testTraffic(t, w, agent)
	w.Fails(t, "history dora --by team", 2, "is not one of application, project, runtime, total")
	w.Fails(t, "history deployments --since never", 2, "neither a length of time")
	w.Fails(t, "history deployments --runtime other", 1, "no runtime \"other\"")
}

type platformList struct {
	Deployments []struct{ Revision string }
}

// testTraffic: sums of two series, and the points of a chart.
func testTraffic(t *testing.T, w *clitest.PlatformWorld, agent platformv1connect.AgentServiceClient) {
	t.Helper()
	now := time.Now()
	must.Get(agent.ReportTraffic(t.Context(), connect.NewRequest(&platformv1.ReportTrafficRequest{
		Edge: "one", StartedAt: timestamppb.New(now.Add(-10 * time.Minute)), At: timestamppb.New(now), Routes: []*platformv1.RouteCount{
			{Key: "a", Series: &platformv1.TrafficSeries{Kind: "Ingress", Namespace: "sea", Name: "shop", Host: "shop.example", ApplicationNamespace: "argocd", Application: "shop", Project: "sea"},
				Statuses: []uint64{0, 0, 90, 0, 5, 5}, Spread: []uint32{0, 100}},
			{Key: "b", Series: &platformv1.TrafficSeries{}, Statuses: []uint64{0, 0, 0, 0, 10}, Spread: []uint32{0, 10}},
		},
	})))(t)
	got := clitest.TrimLines(w.Must(t, "history traffic --runtime prod --span hour"))
	for _, want := range []string{
		"OBJECT HOST APPLICATION REQUESTS 5XX 4XX P50 P99", "Ingress sea/shop shop.example argocd/shop 100 5 (5.00%) 5 (5.00%) 0.144ms",
		"without a route - - 10 0 10 (100.00%)", "total - - 110 5 (4.55%) 15 (13.64%)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	var response struct {
		Step  string
		Total struct{ Points []any }
	}
	if text := w.Must(t, "history traffic --span week --app argocd/shop -o json"); json.Unmarshal([]byte(text), &response) != nil || response.Step != "3600s" || len(response.Total.Points) < 168 {
		t.Errorf("a week: %s", text)
	}
	w.Fails(t, "history traffic --span year", 2, "is not one of hour, day, week, month")
}
