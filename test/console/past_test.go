package console

import (
	"context"
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

const (
	day = 24 * time.Hour
	// trafficDays is how many days an edge has counted, and trafficStep the time between
	// two of its reports.
	trafficDays = 6
	trafficStep = 6 * time.Hour
)

// reportPast has a runtime report deployments and requests of the last weeks, through the
// API that agents use. Nothing else has a past in a test.
func (w *world) reportPast(t *testing.T, body []byte) (any, error) {
	asked, err := read[struct{ Runtime string }](body)
	if err != nil {
		return nil, err
	}
	agent, err := w.reporter(t, asked.Runtime)
	if err != nil {
		return nil, err
	}
	if err := reportSyncs(t.Context(), agent, time.Now().Truncate(time.Second)); err != nil {
		return nil, err
	}
	return struct{}{}, reportRequests(t.Context(), agent, time.Now())
}

// pastSync is a sync that ended some time ago.
func pastSync(now time.Time, revision int, ago time.Duration, message string) *platformv1.ReportedSync {
	at := now.Add(-ago)
	return &platformv1.ReportedSync{
		Revision: fmt.Sprintf("%08x%032d", revision, 0), StartedAt: timestamppb.New(at.Add(-40 * time.Second)), FinishedAt: timestamppb.New(at),
		CommittedAt: timestamppb.New(at.Add(-time.Duration(20+revision%7*30) * time.Minute)), Succeeded: message == "", Message: message, Initiator: adminEmail,
	}
}

// reportSyncs reports three Applications: one whose deployments are good, one that was
// rolled back, and one that failed and was repaired.
func reportSyncs(ctx context.Context, agent platformv1connect.AgentServiceClient, now time.Time) error {
	syncs := map[string][]*platformv1.ReportedSync{}
	for i := range 9 {
		syncs["catalog"] = append(syncs["catalog"], pastSync(now, 0xa1b2c300+i, time.Duration(27-3*i)*day, ""))
	}
	syncs["checkout"] = []*platformv1.ReportedSync{
		pastSync(now, 0xc0ffee01, 20*day, ""), pastSync(now, 0xc0ffee02, 12*day, ""), pastSync(now, 0xc0ffee01, 12*day-2*time.Hour, ""), pastSync(now, 0xc0ffee03, 4*day, ""),
	}
	syncs["search"] = []*platformv1.ReportedSync{
		pastSync(now, 0x5ea3c401, 9*day, ""), pastSync(now, 0x5ea3c402, 8*day, "the Deployment search did not become healthy"), pastSync(now, 0x5ea3c403, 7*day, ""),
	}
	events := []*platformv1.ReportEvent{{Event: &platformv1.ReportEvent_ResyncBegin{ResyncBegin: true}}}
	for i, name := range []string{"catalog", "checkout", "search"} {
		app := one(0)
		app.Name, app.Uid, app.Project, app.Syncs = name, name, []string{"shop", "shop", "platform"}[i], syncs[name]
		events = append(events, &platformv1.ReportEvent{Event: &platformv1.ReportEvent_Application{Application: app}})
	}
	events = append(events, &platformv1.ReportEvent{Event: &platformv1.ReportEvent_ResyncEnd{ResyncEnd: true}})
	for i := range events {
		events[i].Number, events[i].At = int64(i+1), timestamppb.New(now)
	}
	_, err := agent.Report(ctx, connect.NewRequest(&platformv1.ReportRequest{Stream: "past", Events: events}))
	return err
}

// reportRequests reports what an edge counted since its start, as an agent does that
// reaches the platform every few hours. There are more requests by day than by night.
func reportRequests(ctx context.Context, agent platformv1connect.AgentServiceClient, now time.Time) error {
	start := now.Add(-trafficDays * day)
	counted := [3]uint64{}
	for at, step := start, 0; !at.After(now); at, step = at.Add(trafficStep), step+1 {
		if step > 0 {
			busy := uint64(1 + step%4)
			for i := range counted {
				counted[i] += busy * []uint64{42_000, 9_000, 700}[i]
			}
		}
		_, err := agent.ReportTraffic(ctx, connect.NewRequest(&platformv1.ReportTrafficRequest{
			Edge: "one", StartedAt: timestamppb.New(start), At: timestamppb.New(at), Routes: []*platformv1.RouteCount{
				pastRoute("catalog", counted[0], 4), pastRoute("checkout", counted[1], 12),
				{Key: "none", Series: &platformv1.TrafficSeries{}, Statuses: []uint64{0, 0, 0, 0, counted[2]}, Spread: []uint32{0, uint32(counted[2])}},
			},
		}))
		if err != nil {
			return err
		}
	}
	return nil
}

// pastRoute has the counts of a route, of which some in a thousand are errors.
func pastRoute(app string, requests, errors uint64) *platformv1.RouteCount {
	failed, refused := requests*errors/1000, requests/50
	spread := make([]uint32, 40)
	spread[20], spread[30], spread[38] = uint32(requests/2), uint32(requests-requests/2-requests/80), uint32(requests/80)
	return &platformv1.RouteCount{
		Key: app, Statuses: []uint64{0, 0, requests - failed - refused, 0, refused, failed}, Spread: spread,
		Series: &platformv1.TrafficSeries{Kind: "Ingress", Namespace: "shop", Name: app, Host: app + ".example.com", ApplicationNamespace: "slipway", Application: app, Project: "shop"},
	}
}
