package traffic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/observe/trafficreport"
)

const (
	// releaseInterval is how often edges are polled during a release. It is half of the
	// time between two decisions, so that these are about recent counts.
	releaseInterval = PollInterval / 2
	// releaseInterest is how long edges are polled after the last read.
	releaseInterest = 30 * time.Second
	// releaseRetention is how long sums stay that no edge reports any more.
	releaseRetention = 2 * time.Hour
)

// RevisionCounts is what a revision of a Release served at all edges.
type RevisionCounts struct {
	// Started are the requests that were sent to it, Requests those that are over.
	Started, Requests, Errors uint64
	// Latency is the histogram of the time to the response head of the requests that did
	// not fail, with the buckets of trafficreport.
	Latency []uint64
}

// revisionKey identifies a revision of a Release.
type revisionKey struct {
	releaseKey
	revision, hash string
}

// releaseKey identifies a Release object.
type releaseKey struct{ namespace, name, uid string }

// ReleaseCounts sums the counts of Releases over all edges. Counts only grow: an edge that
// restarts begins at 0, and one that goes leaves what it has counted. Any number of edges
// gives the same sums. It is safe for concurrent use.
type ReleaseCounts struct {
	options Options

	// mu guards these.
	mu sync.Mutex
	// requested is when Traffic was last called. wake starts polling again.
	requested time.Time
	wake      chan struct{}
	sums      map[revisionKey]*revisionSum
	// live has the object of a Release that edges serve.
	live map[releaseKey]releaseKey // by namespace and name, without the UID
}

// revisionSum is the sum of a revision, and when an edge last reported it.
type revisionSum struct {
	RevisionCounts
	reported time.Time
}

// edgeRun is the last report of an edge, and the run of the edge that it is from.
type edgeRun struct {
	started time.Time
	last    map[revisionKey]trafficreport.RevisionTraffic
}

// NewReleaseCounts returns counts without any. Of the options it needs those of the edges:
// Cluster, Namespace, Edges, Port and Secret. It polls nothing before Run, and only while
// Traffic is called.
func NewReleaseCounts(options Options) *ReleaseCounts {
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	return &ReleaseCounts{options: options, wake: make(chan struct{}, 1), sums: map[revisionKey]*revisionSum{}, live: map[releaseKey]releaseKey{}}
}

// Traffic returns what two revisions of a Release served since it began, by their hashes;
// false if no edge has reported it yet. It does not wait.
func (c *ReleaseCounts) Traffic(namespace, name, stable, canary string) (ofStable, ofCanary RevisionCounts, reported bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requested = time.Now()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	object, known := c.live[releaseKey{namespace: namespace, name: name}]
	if !known {
		return RevisionCounts{}, RevisionCounts{}, false
	}
	return c.read(revisionKey{object, "stable", stable}), c.read(revisionKey{object, "canary", canary}), true
}

// read copies a sum. The caller holds mu.
func (c *ReleaseCounts) read(key revisionKey) RevisionCounts {
	sum := c.sums[key]
	if sum == nil {
		return RevisionCounts{}
	}
	counts := sum.RevisionCounts
	counts.Latency = append([]uint64(nil), counts.Latency...)
	return counts
}

// Run polls the edges while Traffic is called, until the context is done.
func (c *ReleaseCounts) Run(ctx context.Context) error {
	finder := c.options.finder()
	defer finder.close()
	runs := map[string]*edgeRun{}
	tick := time.NewTicker(releaseInterval)
	defer tick.Stop()
	for {
		if !c.wanted() {
			select {
			case <-ctx.Done():
				return nil
			case <-c.wake:
			}
		}
		c.poll(ctx, finder, runs)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// wanted reports whether Traffic was called a short while ago.
func (c *ReleaseCounts) wanted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.requested.IsZero() && time.Since(c.requested) < releaseInterest
}

// poll reads the counts of all edges once. runs has their last reports and is updated; an
// edge that does not respond keeps its own, and is caught up with later.
func (c *ReleaseCounts) poll(ctx context.Context, finder *edgeFinder, runs map[string]*edgeRun) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	now := time.Now()
	places, err := finder.edges(ctx, now)
	client, clientErr := finder.authenticatedClient(ctx, now)
	if err := errors.Join(err, clientErr); err != nil {
		c.options.Log.Debug("cannot read the counts of releases", observe.KeyError, err)
	}
	if client == nil {
		return
	}
	places = places[:min(len(places), maxEdges)]
	reports := make([]*trafficreport.ReleaseReport, len(places))
	var all sync.WaitGroup
	for i, at := range places {
		all.Go(func() {
			report, err := pollReleases(ctx, client, at)
			if err != nil {
				c.options.Log.Debug("cannot read the counts of releases", "edge", at.name, observe.KeyError, err)
			}
			reports[i] = report
		})
	}
	all.Wait()
	present := make(map[string]bool, len(places))
	for i, at := range places {
		present[at.name] = true
		if reports[i] == nil {
			continue
		}
		if runs[at.name] == nil {
			runs[at.name] = &edgeRun{}
		}
		c.add(runs[at.name], reports[i], now)
	}
	// Pods are listed without those that stopped. Their sums stay.
	maps.DeleteFunc(runs, func(name string, _ *edgeRun) bool { return !present[name] })
	c.forget(now)
}

// pollReleases reads the counts of an edge. An edge of an older version has none.
func pollReleases(ctx context.Context, client *http.Client, at edgeAddress) (*trafficreport.ReleaseReport, error) {
	report := new(trafficreport.ReleaseReport)
	target := &url.URL{Scheme: "https", Host: at.address, Path: trafficreport.ReleasesPath}
	err := fetchPage(ctx, client, target, func(text []byte) error { return json.Unmarshal(text, report) })
	var failed *edgeError
	switch {
	case errors.As(err, &failed) && failed.status == http.StatusNotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case len(report.Releases) > trafficreport.MaxReleases:
		return nil, fmt.Errorf("it lists %d releases, more than %d", len(report.Releases), trafficreport.MaxReleases)
	}
	return report, nil
}

// add adds what an edge has counted since its last report. The first report of a run
// counts from its beginning: an agent that starts in the middle of a release knows what the
// edges know.
func (c *ReleaseCounts) add(run *edgeRun, report *trafficreport.ReleaseReport, now time.Time) {
	if !run.started.Equal(report.Started) {
		run.started, run.last = report.Started, nil
	}
	current := map[revisionKey]trafficreport.RevisionTraffic{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range report.Releases {
		release := &report.Releases[i]
		object := releaseKey{release.Namespace, release.Name, release.UID}
		if !release.Ended {
			c.live[releaseKey{namespace: release.Namespace, name: release.Name}] = object
		}
		for j := range release.Revisions {
			revision := &release.Revisions[j]
			revision.Latency = revision.Latency[:min(len(revision.Latency), trafficreport.Buckets)]
			key := revisionKey{object, revision.Name, revision.Hash}
			earlier := run.last[key]
			current[key] = *revision
			sum := c.sums[key]
			if sum == nil {
				sum = &revisionSum{}
				c.sums[key] = sum
			}
			step := revision.Since(&earlier)
			sum.add(&step)
			sum.reported = now
		}
	}
	run.last = current
}

// add adds the counts of a period.
func (s *revisionSum) add(step *trafficreport.RevisionTraffic) {
	s.Started += step.Started
	s.Requests += step.Requests
	s.Errors += step.Errors
	if short := len(step.Latency) - len(s.Latency); short > 0 {
		s.Latency = append(s.Latency, make([]uint64, short)...)
	}
	for i, n := range step.Latency {
		s.Latency[i] += uint64(n)
	}
}

// forget drops sums that no edge has reported for long.
func (c *ReleaseCounts) forget(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[releaseKey]bool{}
	maps.DeleteFunc(c.sums, func(key revisionKey, sum *revisionSum) bool {
		old := now.Sub(sum.reported) > releaseRetention
		known[key.releaseKey] = known[key.releaseKey] || !old
		return old
	})
	maps.DeleteFunc(c.live, func(_, object releaseKey) bool { return !known[object] })
}
