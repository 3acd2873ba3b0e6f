package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"slipway.dev/slipway/internal/observe/trafficreport"
)

// edgeView is one edge after a round. A round makes new ones: what a watcher holds
// does not change.
type edgeView struct {
	place
	// problem says why it was not heard in this round.
	problem string
	version string
	ready   bool
	started time.Time
	// at is when it counted, by its own clock.
	at           time.Time
	tableVersion string
	table        *trafficreport.Table
	// counts are those since the start, step those of the last step, which took
	// seconds; 0 when there was no step yet.
	counts, step map[trafficreport.RouteID]trafficreport.Count
	totals       totals
	steps        totals
	seconds      float64
}

// totals are counts of more than one route.
type totals struct{ all, unrouted trafficreport.Count }

// hear asks an edge. before is what it said last, nil for nothing.
func hear(ctx context.Context, client *http.Client, at place, before *edgeView) *edgeView {
	have := ""
	if before != nil && before.table != nil {
		have = before.tableVersion
	}
	target := &url.URL{
		Scheme: "https", Host: at.address, Path: trafficreport.ReportPath,
		RawQuery: url.Values{trafficreport.HaveParam: {have}}.Encode(),
	}
	var report *trafficreport.Report
	err := ask(ctx, client, target, func(text []byte) (err error) {
		report, err = decodeReport(text)
		return err
	})
	if err == nil && report.Table == nil && (have == "" || report.TableVersion != have) {
		err = fmt.Errorf("it left out what it serves")
	}
	if err != nil {
		return unheard(at, before, err)
	}
	return heard(at, report, before)
}

// unheard keeps what an edge serves, and says that it is silent.
func unheard(at place, before *edgeView, err error) *edgeView {
	view := &edgeView{place: at, problem: err.Error()}
	if before != nil {
		view.version, view.started = before.version, before.started
		view.tableVersion, view.table = before.tableVersion, before.table
		view.counts, view.totals, view.at = before.counts, before.totals, before.at
	}
	return view
}

// decodeReport reads what an edge says, and makes it safe to count with.
func decodeReport(text []byte) (*trafficreport.Report, error) {
	report := new(trafficreport.Report)
	if err := json.Unmarshal(text, report); err != nil {
		return nil, err
	}
	if table := report.Table; table != nil && len(table.Routes) > trafficreport.MaxRoutes {
		return nil, fmt.Errorf("it lists %d routes, more than %d", len(table.Routes), trafficreport.MaxRoutes)
	}
	bounded := func(c *trafficreport.Count) { c.Spread = c.Spread[:min(len(c.Spread), trafficreport.Buckets)] }
	bounded(&report.Rest)
	bounded(&report.Unrouted)
	for i := range report.Counts {
		bounded(&report.Counts[i].Count)
	}
	return report, nil
}

// heard is an edge that answered.
func heard(at place, report *trafficreport.Report, before *edgeView) *edgeView {
	view := &edgeView{
		place: at, version: report.Version, ready: report.Ready, started: report.Started, at: report.At,
		tableVersion: report.TableVersion, table: report.Table,
		counts: make(map[trafficreport.RouteID]trafficreport.Count, len(report.Counts)),
	}
	if view.table == nil {
		view.table = before.table
	}
	view.totals.unrouted = report.Unrouted
	view.totals.all.Add(&report.Unrouted)
	view.totals.all.Add(&report.Rest)
	for i := range report.Counts {
		counted := &report.Counts[i]
		view.counts[counted.ID] = counted.Count
		view.totals.all.Add(&counted.Count)
	}
	view.measure(before)
	return view
}

// measure takes the difference to what the edge said last. After a restart it
// counts from 0.
func (v *edgeView) measure(before *edgeView) {
	if before == nil || before.at.IsZero() {
		return
	}
	earlier := before
	if !before.started.Equal(v.started) {
		earlier = &edgeView{at: v.started}
	}
	v.seconds = v.at.Sub(earlier.at).Seconds()
	if v.seconds <= 0 {
		v.seconds = 0
		return
	}
	v.step = make(map[trafficreport.RouteID]trafficreport.Count, len(v.counts))
	for id, count := range v.counts {
		last := earlier.counts[id]
		if count.Requests() != last.Requests() {
			v.step[id] = count.Since(&last)
		}
	}
	v.steps.all = v.totals.all.Since(&earlier.totals.all)
	v.steps.unrouted = v.totals.unrouted.Since(&earlier.totals.unrouted)
}

// failureText is what an edge says was wrong.
func failureText(status int, text []byte) string {
	var failure struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &failure) != nil || failure.Error == "" {
		return fmt.Sprintf("it answers with status %d", status)
	}
	return failure.Error
}
