package history

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// responses are the good and the bad requests of a route.
type responses struct{ good, bad uint64 }

// counted is a report of an edge with one route. The times are since dawn.
func counted(started, at time.Duration, key string, sent responses, spread ...uint32) *platformv1.ReportTrafficRequest {
	return &platformv1.ReportTrafficRequest{
		Edge: "e", StartedAt: timestamppb.New(dawn.Add(started)), At: timestamppb.New(dawn.Add(at)),
		Routes: []*platformv1.RouteCount{{Key: key, Series: &platformv1.TrafficSeries{Kind: "Ingress", Name: "shop", Host: "h"}, Statuses: []uint64{0, 0, sent.good, 0, 0, sent.bad}, Spread: spread}},
	}
}

// TestSince: each request is counted once, whatever reports there were.
func TestSince(t *testing.T) {
	first := counted(0, time.Minute, "a", responses{10, 1}, 5, 6)
	for name, test := range map[string]struct {
		before, given *platformv1.ReportTrafficRequest
		want          string // good and bad requests, the histogram, and minutes of the begin
		news          bool
	}{
		"a new edge":             {nil, first, "10 1 [5 6] 0", true},
		"an old edge, new to us": {nil, counted(0, maxUnknown+1, "a", responses{10, 1}), "", true},
		"one that is not so old": {nil, counted(0, maxUnknown, "a", responses{10, 1}), "10 1 [] 0", true},
		"later":                  {first, counted(0, 2*time.Minute, "a", responses{25, 4}, 7, 20), "15 3 [2 14] 1", true},
		"sent again":             {first, first, "", false},
		"out of order":           {counted(0, 2*time.Minute, "a", responses{25, 4}), first, "", false},
		"without requests":       {first, counted(0, 2*time.Minute, "a", responses{10, 1}, 5, 6), "", true},
		"a restarted edge":       {first, counted(2*time.Minute, 3*time.Minute, "a", responses{4, 0}, 4), "4 0 [4] 2", true},
		"a clock that is ahead":  {nil, counted(5*time.Minute, time.Minute, "a", responses{4, 0}), "4 0 [] 1", true},
		"still ahead":            {counted(5*time.Minute, time.Minute, "a", responses{4, 0}), counted(5*time.Minute, 2*time.Minute, "a", responses{6, 0}), "2 0 [] 1", true},
		"a replaced process":     {counted(2*time.Minute, 3*time.Minute, "a", responses{4, 0}), first, "", false},
		"another route":          {first, counted(0, 2*time.Minute, "b", responses{4, 0}, 4), "4 0 [4] 1", true},
		"a route that is back":   {first, counted(0, 2*time.Minute, "a", responses{3, 0}, 3), "3 0 [3] 1", true},
		"a histogram that wraps": {counted(0, time.Minute, "a", responses{10, 0}, math.MaxUint32), counted(0, 2*time.Minute, "a", responses{14, 0}, 3), "4 0 [4] 1", true},
	} {
		difference, from, news := since(test.before, test.given)
		got := ""
		for _, s := range difference {
			got = fmt.Sprintf("%d %d %v %.0f", s.GetStatuses()[2], s.GetStatuses()[5], s.GetSpread(), from.Sub(dawn).Minutes())
		}
		if got != test.want || news != test.news {
			t.Errorf("%s: got %q %v, want %q %v", name, got, news, test.want, test.news)
		}
	}
}

// Routes of one object and host are one series, and the busiest comes first.
func TestSinceSums(t *testing.T) {
	given := counted(0, time.Minute, "a", responses{10, 1}, 5, 6)
	given.Routes = append(given.Routes, counted(0, 0, "b", responses{2, 0}, 1, 1, 1).GetRoutes()...)
	busy := counted(0, 0, "c", responses{100, 0}).GetRoutes()[0]
	busy.Series = &platformv1.TrafficSeries{Name: "busy"}
	given.Routes = append(given.Routes, busy)
	difference, _, _ := since(nil, given)
	if len(difference) != 2 || difference[0].GetSeries().GetName() != "busy" || fmt.Sprint(difference[1].GetStatuses(), difference[1].GetSpread()) != "[0 0 12 0 0 1] [6 7 1]" {
		t.Errorf("got %v", difference)
	}
}

// TestSpread: a short distance belongs to one minute and one hour, and a longer one is
// divided without a loss.
func TestSpread(t *testing.T) {
	at := func(text string) time.Time {
		parsed, err := time.Parse("15:04:05", text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed.AddDate(2026, 4, 1)
	}
	for _, test := range []struct{ from, to, want string }{
		{"10:00:01", "10:01:01", "1m 10:00, 1h 10:00"},
		{"10:00:31", "10:01:31", "1m 10:01, 1h 10:00"},
		{"10:59:29", "11:00:29", "1m 10:59, 1h 10:00"},
		{"10:59:30", "11:00:30", "1m 11:00, 1h 11:00"},
		{"10:00:00", "10:01:30", "1m 10:00, 1h 10:00"},
		{"10:00:00", "10:01:31", "1m 10:00, 1m 10:01, 1h 10:00"},
		{"10:58:30", "11:01:30", "1m 10:58, 1m 10:59, 1m 11:00, 1m 11:01, 1h 10:00, 1h 11:00"},
		{"10:58:00", "11:00:00", "1m 10:58, 1m 10:59, 1h 10:00"},
	} {
		var got []string
		sums := map[time.Duration]uint64{}
		for _, part := range spread(at(test.from), at(test.to)) {
			got = append(got, strings.TrimSuffix(strings.TrimSuffix(part.step.String(), "0s"), "0m")+" "+part.at.Format("15:04"))
			sums[part.step] += part.share(1001)
		}
		if strings.Join(got, ", ") != test.want || sums[time.Minute] != 1001 || sums[time.Hour] != 1001 {
			t.Errorf("%s to %s: got %v with %v, want %s", test.from, test.to, got, sums, test.want)
		}
	}
	// A night: hours have all of it, and minutes the last two hours.
	minutes, hours := uint64(0), uint64(0)
	for _, part := range spread(at("00:00:00"), at("10:00:00")) {
		if part.step == store.TrafficMinute {
			minutes += part.share(1_000_000_000_000)
		} else {
			hours += part.share(1_000_000_000_000)
		}
	}
	if hours != 1_000_000_000_000 || minutes != 200_000_000_000 {
		t.Errorf("a night has %d in hours and %d in minutes", hours, minutes)
	}
	if parts := spread(dawn.Add(-5000*day), dawn); len(parts) > 1000 {
		t.Errorf("an edge of the past has %d parts", len(parts))
	}
}

// TestMerge: series beyond the limit are summed up in one, with their number.
func TestMerge(t *testing.T) {
	sums, more := &platformv1.StoredTraffic{}, []*platformv1.StoredSeries{}
	for i := range maxSeries + 3 {
		more = append(more, &platformv1.StoredSeries{Series: &platformv1.TrafficSeries{Name: fmt.Sprint("s", i)}, Statuses: []uint64{0, 0, 1}})
	}
	merge(sums, more[:maxSeries])
	if len(sums.GetSeries()) != maxSeries || sums.GetMerged() != 0 {
		t.Fatalf("%d series, %d merged", len(sums.GetSeries()), sums.GetMerged())
	}
	merge(sums, more)
	total := uint64(0)
	for _, series := range sums.GetSeries() {
		total += requests(series.GetStatuses())
	}
	last := sums.GetSeries()[len(sums.GetSeries())-1]
	if len(sums.GetSeries()) != maxSeries+1 || sums.GetMerged() != 3 || total != 2*maxSeries+3 || !last.GetSeries().GetOthers() || last.GetStatuses()[2] != 3 {
		t.Errorf("%d series, %d merged, %d requests, the last is %v", len(sums.GetSeries()), sums.GetMerged(), total, last)
	}
	// The next report has the same series.
	if merge(sums, more); sums.GetMerged() != 3 {
		t.Errorf("%d series of two reports were merged", sums.GetMerged())
	}
}

// TestViewedSeries: series beyond the limit of a request are summed up in one, and the
// total has them all.
func TestViewedSeries(t *testing.T) {
	view, err := newTrafficView(dawn.Add(-time.Hour), dawn, dawn)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxViewed + 2 {
		series := &platformv1.StoredSeries{Series: &platformv1.TrafficSeries{Name: fmt.Sprint(i % (maxViewed + 1))}, Statuses: []uint64{0, 0, 1}}
		if placed := view.add(dawn.Add(-time.Minute), series); placed != (i != maxViewed) {
			t.Errorf("series %d: %v", i, placed)
		}
	}
	response := view.message(mostSeries + 1)
	if got := response.GetTotal().GetSum().GetRequests(); got != maxViewed+2 || len(response.GetSeries()) != mostSeries || response.GetSeriesLeftOut() != maxViewed+1-mostSeries {
		t.Errorf("%d requests, %d series, %d left out", got, len(response.GetSeries()), response.GetSeriesLeftOut())
	}
	if others := view.series[seriesKey(&platformv1.TrafficSeries{Others: true})]; requests(others.sum.statuses) != 1 {
		t.Errorf("the others have %v", others.sum)
	}
}

// TestTrafficView: the steps of a span.
func TestTrafficView(t *testing.T) {
	now := dawn.Add(30*time.Minute + 10*time.Second)
	for _, test := range []struct {
		span         time.Duration
		stored, step time.Duration
		points       int
	}{
		{0, time.Minute, time.Minute, 61},
		{time.Hour, time.Minute, time.Minute, 61},
		{day, time.Minute, 10 * time.Minute, 145},
		{minutesKept, time.Minute, 10 * time.Minute, 151},
		{minutesKept + 1, time.Hour, time.Hour, 26},
		{7 * day, time.Hour, time.Hour, 169},
		{30 * day, time.Hour, 4 * time.Hour, 181},
	} {
		since := now.Add(-test.span)
		if test.span == 0 {
			since = time.Time{}
		}
		view, err := newTrafficView(since, time.Time{}, now)
		if err != nil || view.stored != test.stored || view.step != test.step || len(view.total.points) != test.points {
			t.Errorf("%v: stored %v, step %v, %d points, %v", test.span, view.stored, view.step, len(view.total.points), err)
		}
		if view.until.Before(now) || view.until.Sub(now) >= view.step || view.since.After(now.Add(-test.span)) {
			t.Errorf("%v: from %v to %v", test.span, view.since, view.until)
		}
	}
	// Minutes of an hour of the past are gone, however short the span is.
	if view, err := newTrafficView(now.Add(-3*day), now.Add(-3*day+time.Hour), now); err != nil || view.stored != store.TrafficHour {
		t.Errorf("an hour of the past: %v, %v", view, err)
	}
	for _, span := range []time.Duration{-time.Minute, maxTrafficSpan + 1} {
		if _, err := newTrafficView(now.Add(-span), now, now); err == nil {
			t.Errorf("a span of %v is accepted", span)
		}
	}
}
