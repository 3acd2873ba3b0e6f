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

// edgeView is one edge after a poll. It is immutable: each poll makes a new
// one, so that streams can hold on to it.
type edgeView struct {
	edgeAddress
	// problem is why the edge could not be polled.
	problem string
	// version, ready and started are those of the edge's process.
	version string
	ready   bool
	started time.Time
	// at is when the edge counted, by its own clock.
	at time.Time
	// tableVersion identifies the table, so that an unchanged one is not sent
	// again.
	tableVersion string
	table        *trafficreport.Table
	// counts are since the start, and step those of the last interval, which
	// took seconds; 0 before the second poll.
	counts, step map[trafficreport.RouteID]trafficreport.Count
	// totals and steps are the sums of counts and step.
	totals  totals
	steps   totals
	seconds float64
	// revisions are the counts of the revisions of Releases that run, and
	// revisionSteps those of the last interval.
	revisions, revisionSteps map[revisionKey]trafficreport.RevisionTraffic
}

// totals are counts of all requests, and of those without a route.
type totals struct{ all, unrouted trafficreport.Count }

// pollEdge reads the report of an edge. before is its last view; nil for none.
// The edge leaves out its table if it has not changed.
func pollEdge(ctx context.Context, client *http.Client, at edgeAddress, before *edgeView) *edgeView {
	have := ""
	if before != nil && before.table != nil {
		have = before.tableVersion
	}
	target := &url.URL{
		Scheme: "https", Host: at.address, Path: trafficreport.ReportPath,
		RawQuery: url.Values{trafficreport.HaveParam: {have}}.Encode(),
	}
	var report *trafficreport.Report
	err := fetchPage(ctx, client, target, func(text []byte) (err error) {
		report, err = decodeReport(text)
		return err
	})
	// The edge leaves out its table only if it is the one that we have.
	if err == nil && report.Table == nil && (have == "" || report.TableVersion != have) {
		err = fmt.Errorf("it left out what it serves")
	}
	if err != nil {
		return failedPoll(at, before, err)
	}
	return newEdgeView(at, report, before)
}

// failedPoll keeps the last table of an edge that cannot be polled, with the
// reason.
func failedPoll(at edgeAddress, before *edgeView, err error) *edgeView {
	view := &edgeView{edgeAddress: at, problem: err.Error()}
	if before != nil {
		// The last table stays visible, as a silent edge may still serve it.
		view.version, view.started = before.version, before.started
		view.tableVersion, view.table = before.tableVersion, before.table
		view.counts, view.totals, view.at = before.counts, before.totals, before.at
		view.revisions = before.revisions
	}
	return view
}

// decodeReport decodes and checks a report: the edge may be of another version.
func decodeReport(text []byte) (*trafficreport.Report, error) {
	report := new(trafficreport.Report)
	if err := json.Unmarshal(text, report); err != nil {
		return nil, err
	}
	if len(report.Releases) > trafficreport.MaxReleases {
		return nil, fmt.Errorf("it lists %d releases, more than %d", len(report.Releases), trafficreport.MaxReleases)
	}
	if table := report.Table; table != nil && len(table.Routes) > trafficreport.MaxRoutes {
		return nil, fmt.Errorf("it lists %d routes, more than %d", len(table.Routes), trafficreport.MaxRoutes)
	}
	// More buckets than ours would be out of range when counts are added.
	bounded := func(c *trafficreport.Count) { c.Spread = c.Spread[:min(len(c.Spread), trafficreport.Buckets)] }
	bounded(&report.Rest)
	bounded(&report.Unrouted)
	for i := range report.Counts {
		bounded(&report.Counts[i].Count)
	}
	for i := range report.Releases {
		for j := range report.Releases[i].Revisions {
			revision := &report.Releases[i].Revisions[j]
			revision.Latency = revision.Latency[:min(len(revision.Latency), trafficreport.Buckets)]
		}
	}
	return report, nil
}

// newEdgeView converts a report.
func newEdgeView(at edgeAddress, report *trafficreport.Report, before *edgeView) *edgeView {
	view := &edgeView{
		edgeAddress: at, version: report.Version, ready: report.Ready, started: report.Started, at: report.At,
		tableVersion: report.TableVersion, table: report.Table,
		counts: make(map[trafficreport.RouteID]trafficreport.Count, len(report.Counts)),
	}
	if view.table == nil {
		view.table = before.table
	}
	view.totals.unrouted = report.Unrouted
	view.totals.all.Add(&report.Unrouted)
	// Rest are the routes beyond the limit of the report.
	view.totals.all.Add(&report.Rest)
	for i := range report.Counts {
		counted := &report.Counts[i]
		view.counts[counted.ID] = counted.Count
		view.totals.all.Add(&counted.Count)
	}
	view.revisions = revisionsOf(report.Releases)
	view.measure(before)
	return view
}

// measure computes the difference to the last view. After a restart the counts
// start at 0.
func (v *edgeView) measure(before *edgeView) {
	if before == nil || before.at.IsZero() {
		return
	}
	earlier := before
	// The process was restarted: its counts started at 0, at the time of the
	// start.
	if !before.started.Equal(v.started) {
		earlier = &edgeView{at: v.started}
	}
	v.seconds = v.at.Sub(earlier.at).Seconds()
	// The clock of the edge went backwards. The next poll measures again.
	if v.seconds <= 0 {
		v.seconds = 0
		return
	}
	v.step = make(map[trafficreport.RouteID]trafficreport.Count, len(v.counts))
	for id, count := range v.counts {
		last := earlier.counts[id]
		// Routes without requests have no entry, which keeps the messages
		// small.
		if count.Requests() != last.Requests() {
			v.step[id] = count.Since(&last)
		}
	}
	v.revisionSteps = make(map[revisionKey]trafficreport.RevisionTraffic, len(v.revisions))
	for key, revision := range v.revisions {
		last := earlier.revisions[key]
		v.revisionSteps[key] = revision.Since(&last)
	}
	v.steps.all = v.totals.all.Since(&earlier.totals.all)
	v.steps.unrouted = v.totals.unrouted.Since(&earlier.totals.unrouted)
}

// failureText returns the error message in a response.
func failureText(status int, text []byte) string {
	var failure struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &failure) != nil || failure.Error == "" {
		return fmt.Sprintf("it responds with status %d", status)
	}
	return failure.Error
}
