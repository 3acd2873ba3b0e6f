package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// edge counts requests as an edge does: since its start.
type edge struct {
	name    string
	started time.Time
	counts  map[string]uint64 // by project/application, or a dash
}

// report is what the edge has counted at a time: all were good and took 10 ms, but one
// in ten.
func (e *edge) report(at time.Time) *platformv1.ReportTrafficRequest {
	request := &platformv1.ReportTrafficRequest{Edge: e.name, StartedAt: timestamppb.New(e.started), At: timestamppb.New(at)}
	for place, n := range e.counts {
		series := &platformv1.TrafficSeries{}
		if project, name, found := strings.Cut(place, "/"); found {
			series = &platformv1.TrafficSeries{Kind: "Ingress", Namespace: "apps", Name: name, Host: name + ".example", ApplicationNamespace: "argocd", Application: name, Project: project}
		}
		spread := make([]uint32, trafficreport.Buckets)
		spread[trafficreport.BucketOf(10*time.Millisecond)] = uint32(n)
		request.Routes = append(request.Routes, &platformv1.RouteCount{Key: place, Series: series, Statuses: []uint64{0, 0, n - n/10, 0, 0, n / 10}, Spread: spread})
	}
	return request
}

// traffic lists the sums of series, and of the points with requests.
func traffic(t *testing.T, client platformv1connect.HistoryServiceClient, request *platformv1.GetTrafficHistoryRequest) string {
	t.Helper()
	request.Runtime = "prod"
	response := must.Get(client.GetTrafficHistory(t.Context(), connect.NewRequest(request)))(t).Msg
	shown := func(p *platformv1.TrafficPoint) string { return fmt.Sprintf("%d-%d", p.GetRequests(), p.GetErrors()) }
	lines := []string{"total " + shown(response.GetTotal().GetSum())}
	for _, series := range response.GetSeries() {
		lines = append(lines, series.GetSeries().GetApplication()+" "+shown(series.GetSum()))
	}
	for i, point := range response.GetTotal().GetPoints() {
		if point.GetRequests() > 0 {
			at := response.GetSince().AsTime().Add(time.Duration(i) * response.GetStep().AsDuration())
			lines = append(lines, at.Format("15:04")+" "+shown(point))
		}
	}
	return strings.Join(lines, ", ")
}

// TestTraffic: each request of an edge is in one minute and one hour, over reports that
// are sent twice, lost, or come from another leader, and a restart of the edge.
func TestTraffic(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		viewer := w.as(t, store.RoleViewer)
		one := &edge{"one", w.now.Add(-10 * time.Second), map[string]uint64{"shop/web": 0}}
		record := func(e *edge) {
			t.Helper()
			for range 2 {
				must.Do(t, w.history.RecordTraffic(t.Context(), w.runtime.ID, e.report(w.now)))
			}
		}
		pass := func(minutes int, e *edge, place string, requests uint64) {
			w.now = w.now.Add(time.Duration(minutes) * time.Minute)
			e.counts[place] += requests
		}
		record(one) // 12:00
		pass(1, one, "shop/web", 100)
		record(one)
		pass(1, one, "shop/web", 50)
		pass(1, one, "shop/web", 50) // the report of 12:02 was lost
		record(one)
		two := &edge{"two", w.now, map[string]uint64{"bank/vault": 20}}
		record(two)
		pass(1, one, "shop/web", 10)
		two.counts["bank/vault"] += 10
		record(one)
		record(two)
		restarted := &edge{"one", w.now.Add(20 * time.Second), map[string]uint64{"shop/web": 30, "-": 10}}
		w.now = w.now.Add(time.Minute)
		record(restarted)
		record(one) // what the old process still sends
		want := "total 280-28, web 240-24, vault 30-3,  10-1, 12:00 100-10, 12:01 50-5, 12:02 50-5, 12:03 40-4, 12:04 40-4"
		if got := traffic(t, viewer, &platformv1.GetTrafficHistoryRequest{}); got != want {
			t.Errorf("minutes:\ngot  %s\nwant %s", got, want)
		}
		if got := traffic(t, viewer, &platformv1.GetTrafficHistoryRequest{Since: timestamppb.New(w.now.Add(-7 * day))}); got != "total 280-28, web 240-24, vault 30-3,  10-1, 12:00 280-28" {
			t.Errorf("hours: %s", got)
		}
		if got := traffic(t, viewer, &platformv1.GetTrafficHistoryRequest{Application: "vault", Namespace: "argocd"}); !strings.HasPrefix(got, "total 30-3, vault 30-3, ") {
			t.Errorf("one application: %s", got)
		}
		if got := traffic(t, viewer, &platformv1.GetTrafficHistoryRequest{Host: "web.example", Limit: 1}); !strings.HasPrefix(got, "total 240-24, web 240-24, ") {
			t.Errorf("one host: %s", got)
		}
		if got := traffic(t, w.as(t, store.RoleRestricted, "team"), &platformv1.GetTrafficHistoryRequest{}); !strings.HasPrefix(got, "total 240-24, web 240-24, ") {
			t.Errorf("the team of the shop sees %s", got)
		}
		if got := traffic(t, w.as(t, store.RoleRestricted), &platformv1.GetTrafficHistoryRequest{}); got != "total 0-0" {
			t.Errorf("a restricted user sees %s", got)
		}
		response := must.Get(viewer.GetTrafficHistory(t.Context(), connect.NewRequest(&platformv1.GetTrafficHistoryRequest{Runtime: "prod", Limit: 1})))(t).Msg
		if p := response.GetTotal().GetSum().GetP50(); response.GetSeriesLeftOut() != 2 || p < 0.0075 || p > 0.0125 {
			t.Errorf("%d series are left out, and the median is %v", response.GetSeriesLeftOut(), p)
		}
	})
}

// TestTrafficOutage: requests of two hours without a report are spread over more rows
// than are read at once, and none is lost.
func TestTrafficOutage(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		one := &edge{"one", w.now, map[string]uint64{"shop/web": 0}}
		must.Do(t, w.history.RecordTraffic(t.Context(), w.runtime.ID, one.report(w.now)))
		w.now = w.now.Add(2 * time.Hour)
		one.counts["shop/web"] = 12_000
		must.Do(t, w.history.RecordTraffic(t.Context(), w.runtime.ID, one.report(w.now)))
		response := must.Get(w.as(t, store.RoleViewer).GetTrafficHistory(t.Context(), connect.NewRequest(&platformv1.GetTrafficHistoryRequest{
			Runtime: "prod", Since: timestamppb.New(w.now.Add(-2 * time.Hour)), Until: timestamppb.New(w.now),
		})))(t).Msg
		points := response.GetTotal().GetPoints()
		if len(points) != 120 || points[0].GetRequests() != 100 || points[119].GetRequests() != 100 || response.GetTotal().GetSum().GetRequests() != 12_000 {
			t.Errorf("%d points, %v in total, the last %v", len(points), response.GetTotal().GetSum(), points[len(points)-1])
		}
	})
}

// TestTrafficMerged: those who see all Applications also see how many series were summed
// up.
func TestTrafficMerged(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		one := &edge{"one", w.now.Add(-time.Minute), map[string]uint64{}}
		// Two minutes with the same series: they are not counted twice.
		for range 2 {
			for i := range 203 {
				one.counts[fmt.Sprintf("shop/web%d", i)] += 10
			}
			must.Do(t, w.history.RecordTraffic(t.Context(), w.runtime.ID, one.report(w.now)))
			w.now = w.now.Add(time.Minute)
		}
		for _, tt := range []struct {
			client   platformv1connect.HistoryServiceClient
			merged   int32
			requests uint64
		}{{w.as(t, store.RoleViewer), 3, 4060}, {w.as(t, store.RoleRestricted, "team"), 0, 4000}} {
			response := must.Get(tt.client.GetTrafficHistory(t.Context(), connect.NewRequest(&platformv1.GetTrafficHistoryRequest{Runtime: "prod"})))(t).Msg
			if response.GetSeriesMerged() != tt.merged || response.GetTotal().GetSum().GetRequests() != tt.requests {
				t.Errorf("%d merged, %v; want %d and %d", response.GetSeriesMerged(), response.GetTotal().GetSum(), tt.merged, tt.requests)
			}
		}
	})
}

// TestTrafficRetention: minutes are kept for a day, hours for the retention, and the
// sums of both are equal.
func TestTrafficRetention(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		viewer := w.as(t, store.RoleViewer)
		begin := w.now // 12:00
		one := &edge{"one", begin, map[string]uint64{"shop/web": 10}}
		w.now = w.now.Add(time.Minute)
		must.Do(t, w.history.RecordTraffic(t.Context(), w.runtime.ID, one.report(w.now)))
		rows := func(step time.Duration) int {
			return len(must.Get(w.store.TrafficSums(t.Context(), w.runtime.ID, step, begin.Add(-day), w.now.Add(day)))(t))
		}
		clean := func(after time.Duration, minutes, hours int) {
			t.Helper()
			w.now = begin.Add(after)
			must.Get(w.history.Clean(t.Context()))(t)
			if rows(time.Minute) != minutes || rows(time.Hour) != hours {
				t.Errorf("after %v: %d minutes and %d hours are left", after, rows(time.Minute), rows(time.Hour))
			}
		}
		clean(25*time.Hour, 1, 1)
		clean(25*time.Hour+time.Microsecond, 0, 1)
		if got := traffic(t, viewer, &platformv1.GetTrafficHistoryRequest{Since: timestamppb.New(begin.Add(-time.Hour))}); got != "total 10-1, web 10-1, 12:00 10-1" {
			t.Errorf("got %s", got)
		}
		clean(20*day, 0, 1)
		clean(20*day+time.Microsecond, 0, 0)
		// The edge still has its counts, and they are not new.
		must.Do(t, w.history.RecordTraffic(t.Context(), w.runtime.ID, one.report(w.now)))
		if rows(time.Hour) != 0 {
			t.Error("requests were counted again")
		}
	})
}

func TestTrafficRefusals(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		for name, change := range map[string]func(*platformv1.ReportTrafficRequest){
			"no edge":      func(r *platformv1.ReportTrafficRequest) { r.Edge = "" },
			"no start":     func(r *platformv1.ReportTrafficRequest) { r.StartedAt = nil },
			"no time":      func(r *platformv1.ReportTrafficRequest) { r.At = nil },
			"before start": func(r *platformv1.ReportTrafficRequest) { r.At = timestamppb.New(w.now.Add(-day)) },
			"no key":       func(r *platformv1.ReportTrafficRequest) { r.Routes[0].Key = "" },
			"classes":      func(r *platformv1.ReportTrafficRequest) { r.Routes[0].Statuses = make([]uint64, 7) },
			"buckets":      func(r *platformv1.ReportTrafficRequest) { r.Routes[0].Spread = make([]uint32, trafficreport.Buckets+1) },
			"long":         func(r *platformv1.ReportTrafficRequest) { r.Routes[0].Series.Host = strings.Repeat("a", 513) },
			"many":         func(r *platformv1.ReportTrafficRequest) { r.Routes = slices.Repeat(r.Routes, 2003) },
		} {
			request := (&edge{"one", w.now.Add(-time.Minute), map[string]uint64{"shop/web": 10}}).report(w.now)
			change(request)
			if err := w.history.RecordTraffic(t.Context(), w.runtime.ID, request); connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("%s: %v", name, err)
			}
		}
		// A name of the greatest length is stored.
		long := (&edge{"long", w.now, map[string]uint64{"shop/web": 0}}).report(w.now)
		long.Routes[0].Series.Host = strings.Repeat("a", 512)
		must.Do(t, w.history.RecordTraffic(t.Context(), w.runtime.ID, long))
		// A clock that is ahead writes nothing into the future.
		ahead := &edge{"one", w.now.Add(2 * time.Hour), map[string]uint64{"shop/web": 10}}
		must.Do(t, w.history.RecordTraffic(t.Context(), w.runtime.ID, ahead.report(w.now.Add(3*time.Hour))))
		// Nor does it count twice: the process is the same.
		w.now = w.now.Add(time.Minute)
		must.Do(t, w.history.RecordTraffic(t.Context(), w.runtime.ID, ahead.report(w.now.Add(3*time.Hour))))
		if got := traffic(t, w.as(t, store.RoleViewer), &platformv1.GetTrafficHistoryRequest{}); got != "total 10-1, web 10-1, 12:00 10-1" {
			t.Errorf("got %s", got)
		}
		viewer := w.as(t, store.RoleViewer)
		for request, code := range map[*platformv1.GetTrafficHistoryRequest]connect.Code{
			{}: connect.CodeInvalidArgument, {Runtime: "other"}: connect.CodeNotFound,
			{Runtime: "prod", Since: timestamppb.New(w.now)}:                                                connect.CodeInvalidArgument,
			{Runtime: "prod", Since: timestamppb.New(w.now.Add(-101 * day)), Until: timestamppb.New(w.now)}: connect.CodeInvalidArgument,
		} {
			if _, err := viewer.GetTrafficHistory(t.Context(), connect.NewRequest(request)); connect.CodeOf(err) != code {
				t.Errorf("%v: %v", request, err)
			}
		}
	})
}
