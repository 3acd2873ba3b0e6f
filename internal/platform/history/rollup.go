package history

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	// maxSeries bounds the series of a step; the requests of others are summed
	// up in one.
	maxSeries = 200
	// maxRoutes bounds the routes of a report: those that an edge lists, and the
	// two sums of the others.
	maxRoutes = trafficreport.MaxRoutes + 2
	maxWord   = 512
	// shortReport is up to which distance to the report before requests belong
	// to one step. Reports come every minute, never exactly.
	shortReport = 90 * time.Second
	// maxMinutes is how far back the requests of a longer distance are spread
	// over minutes. They are always spread over hours.
	maxMinutes = 2 * time.Hour
	// maxUnknown is up to which age the counts of an edge that was never seen
	// are added. Those of an older one may be from before there was a history.
	maxUnknown = time.Hour
	// maxDelay is the largest distance that is spread: older steps have expired.
	maxDelay = 30 * day
	// statuses is the number of status classes.
	statuses = 6
)

// RecordTraffic stores what an edge of a runtime has counted. Counts are since
// the start of the edge: the difference to those of its last report is added to
// the sums, and both are stored in one transaction. So a report that is sent
// twice adds nothing, and one that is lost is made good by the next.
func (h *History) RecordTraffic(ctx context.Context, runtimeID string, given *platformv1.ReportTrafficRequest) error {
	if err := checkTraffic(given); err != nil {
		return err
	}
	// The clock of an edge that is ahead must not write into the future. The
	// start is left as it is: it identifies the process.
	if now := h.now(); given.GetAt().AsTime().After(now) {
		given.At = timestamppb.New(now)
	}
	return h.store.ChangeTraffic(ctx, runtimeID, given.GetEdge(), func(t *store.TrafficChange) error {
		encoded, err := t.Counts()
		if err != nil {
			return err
		}
		var before *platformv1.ReportTrafficRequest
		if encoded != nil {
			before = &platformv1.ReportTrafficRequest{}
			// Counts of an incompatible version are those of a new edge.
			if proto.Unmarshal(encoded, before) != nil {
				before = nil
			}
		}
		difference, from, news := since(before, given)
		if !news {
			return nil
		}
		for _, part := range spread(from, given.GetAt().AsTime()) {
			if err := addPart(t, part, difference); err != nil {
				return err
			}
		}
		counts, err := proto.Marshal(withoutSeries(given))
		if err != nil {
			return err
		}
		return t.SetCounts(counts)
	})
}

// checkTraffic validates a report. A runtime is trusted with its own numbers
// alone: lengths are bounded, because each series is stored in every row of the
// retention.
func checkTraffic(given *platformv1.ReportTrafficRequest) error {
	invalid := func(format string, args ...any) error {
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
	}
	switch {
	case given.GetEdge() == "" || len(given.GetEdge()) > maxWord:
		return invalid("a report of traffic needs the name of the edge, with at most %d characters", maxWord)
	case !given.GetStartedAt().IsValid() || !given.GetAt().IsValid() || given.GetAt().AsTime().Before(given.GetStartedAt().AsTime()):
		return invalid("a report of traffic needs the start of the edge and a later time")
	case len(given.GetRoutes()) > maxRoutes:
		return invalid("the report has %d routes; at most %d are possible", len(given.GetRoutes()), maxRoutes)
	}
	for _, route := range given.GetRoutes() {
		s := route.GetSeries()
		if len(route.GetStatuses()) > statuses || len(route.GetSpread()) > trafficreport.Buckets || route.GetKey() == "" {
			return invalid("a route of the report has no key, or more numbers than there are classes and buckets")
		}
		for _, text := range []string{s.GetKind(), s.GetNamespace(), s.GetName(), s.GetHost(), s.GetApplicationNamespace(), s.GetApplication(), s.GetProject()} {
			if len(text) > maxWord {
				return invalid("a route of the report has a name of %d characters; at most %d are stored", len(text), maxWord)
			}
		}
		if len(route.GetKey()) > 4*maxWord {
			return invalid("a route of the report has a key of %d characters", len(route.GetKey()))
		}
	}
	return nil
}

// withoutSeries returns the counts of a report by key, to compare the next one
// with.
func withoutSeries(given *platformv1.ReportTrafficRequest) *platformv1.ReportTrafficRequest {
	bare := &platformv1.ReportTrafficRequest{StartedAt: given.GetStartedAt(), At: given.GetAt()}
	for _, route := range given.GetRoutes() {
		bare.Routes = append(bare.Routes, &platformv1.RouteCount{Key: route.GetKey(), Statuses: route.GetStatuses(), Spread: route.GetSpread()})
	}
	return bare
}

// since returns the requests between two reports of an edge, by series, and
// when the time between them began. news is false for a report that changes
// nothing: one that was sent again, or of a process that was replaced.
func since(before, given *platformv1.ReportTrafficRequest) (difference []*platformv1.StoredSeries, from time.Time, news bool) {
	started, at := given.GetStartedAt().AsTime(), given.GetAt().AsTime()
	base := map[string]*platformv1.RouteCount{}
	// By a clock that is ahead, a process may start in the future.
	if from = started; from.After(at) {
		from = at
	}
	switch {
	case before == nil && at.Sub(started) > maxUnknown:
		return nil, at, true // its counts are the base of the next report
	case before == nil:
	case before.GetStartedAt().AsTime().After(started):
		return nil, at, false
	case before.GetStartedAt().AsTime().Equal(started):
		if !at.After(before.GetAt().AsTime()) {
			return nil, at, false
		}
		from = before.GetAt().AsTime()
		for _, route := range before.GetRoutes() {
			base[route.GetKey()] = route
		}
	}
	// Several routes of an object are one series, which keeps the number of
	// series near that of objects and hosts.
	bySeries := map[string]*platformv1.StoredSeries{}
	for _, route := range given.GetRoutes() {
		key := seriesKey(route.GetSeries())
		if bySeries[key] == nil {
			bySeries[key] = &platformv1.StoredSeries{Series: route.GetSeries()}
			difference = append(difference, bySeries[key])
		}
		addSince(bySeries[key], base[route.GetKey()], route)
	}
	difference = slices.DeleteFunc(difference, func(s *platformv1.StoredSeries) bool { return requests(s.GetStatuses()) == 0 })
	// The order decides which series have a place.
	slices.SortStableFunc(difference, func(a, b *platformv1.StoredSeries) int {
		return cmp.Compare(requests(b.GetStatuses()), requests(a.GetStatuses()))
	})
	return difference, from, true
}

// addSince adds the requests of a route between two counts of it. A route that
// was removed and added again counts from zero.
func addSince(to *platformv1.StoredSeries, before, now *platformv1.RouteCount) {
	if requests(now.GetStatuses()) < requests(before.GetStatuses()) {
		before = nil
	}
	for i, n := range now.GetStatuses() {
		if old := before.GetStatuses(); i < len(old) {
			n -= min(n, old[i])
		}
		to.Statuses = grown(to.Statuses, i)
		to.Statuses[i] += n
	}
	for i, n := range now.GetSpread() {
		if old := before.GetSpread(); i < len(old) {
			n -= old[i] // wraps around as the counts do
		}
		to.Spread = grown(to.Spread, i)
		to.Spread[i] += uint64(n)
	}
}

// requests sums up the status classes.
func requests(statuses []uint64) (sum uint64) {
	for _, n := range statuses {
		sum += n
	}
	return sum
}

// grown returns a list with at least one more element than an index.
func grown(list []uint64, index int) []uint64 {
	if index < len(list) {
		return list
	}
	return append(list, make([]uint64, index+1-len(list))...)
}

// seriesKey identifies a series. Its Application is not part of the key, since it
// may change while requests go on. Quotes keep names with spaces apart.
func seriesKey(s *platformv1.TrafficSeries) string {
	return fmt.Sprintf("%q %q %q %q %v", s.GetKind(), s.GetNamespace(), s.GetName(), s.GetHost(), s.GetOthers())
}

// part is a step with its share of a distance between two reports: from begin
// to end, of whole.
type part struct {
	step              time.Duration
	at                time.Time
	begin, end, whole uint64
}

// spread divides the time between two reports into minutes and hours. Requests
// of a short distance belong to the step of its middle; those of a longer one,
// after an outage, are spread evenly.
func spread(from, to time.Time) (parts []part) {
	// A start in the distant past must not give millions of parts.
	if oldest := to.Add(-maxDelay); from.Before(oldest) {
		from = oldest
	}
	whole := to.Sub(from)
	for _, step := range []time.Duration{store.TrafficMinute, store.TrafficHour} {
		if whole <= shortReport {
			parts = append(parts, part{step, from.Add(whole / 2).Truncate(step), 0, 1, 1})
			continue
		}
		for at := from.Truncate(step); at.Before(to); at = at.Add(step) {
			if step == store.TrafficMinute && to.Sub(at) > maxMinutes {
				continue
			}
			begin, end := max(0, at.Sub(from)), min(whole, at.Add(step).Sub(from))
			parts = append(parts, part{step, at, uint64(begin), uint64(end), uint64(whole)})
		}
	}
	return parts
}

// share returns the requests of a number that belong to the part. The shares of
// all parts add up to the number.
func (p part) share(n uint64) uint64 { return scaled(n, p.end, p.whole) - scaled(n, p.begin, p.whole) }

// scaled returns n * a / b, rounded down; a is at most b. The product has 128
// bits: nanoseconds of days times requests overflow 64.
func scaled(n, a, b uint64) uint64 {
	high, low := bits.Mul64(n, a)
	quotient, _ := bits.Div64(high, low, b)
	return quotient
}

// addPart adds the share of a step to its sums. It reads and writes the row in
// the transaction of the report, so that edges of a runtime that report at the
// same time do not overwrite each other.
func addPart(t *store.TrafficChange, p part, difference []*platformv1.StoredSeries) error {
	var shares []*platformv1.StoredSeries
	for _, series := range difference {
		share := &platformv1.StoredSeries{Series: series.GetSeries()}
		for i, n := range series.GetStatuses() {
			share.Statuses = grown(share.Statuses, i)
			share.Statuses[i] = p.share(n)
		}
		for i, n := range series.GetSpread() {
			share.Spread = grown(share.Spread, i)
			share.Spread[i] = p.share(n)
		}
		// Small numbers over many steps: most steps have no share of them.
		if requests(share.GetStatuses()) > 0 {
			shares = append(shares, share)
		}
	}
	if len(shares) == 0 {
		return nil
	}
	sums := &platformv1.StoredTraffic{}
	encoded, err := t.Sums(p.step, p.at)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(encoded, sums); err != nil {
		return err
	}
	merge(sums, shares)
	if encoded, err = proto.Marshal(sums); err != nil {
		return err
	}
	return t.SetSums(p.step, p.at, encoded)
}

// merge adds series to sums. Those without a place are summed up in one. The
// number of merged ones is that of the worst report: the same series come with
// every report, and adding them up would count them again.
func merge(sums *platformv1.StoredTraffic, more []*platformv1.StoredSeries) {
	known := map[string]*platformv1.StoredSeries{}
	for _, series := range sums.GetSeries() {
		known[seriesKey(series.GetSeries())] = series
	}
	others := &platformv1.TrafficSeries{Others: true}
	merged := int32(0)
	for _, one := range more {
		series, key := one.GetSeries(), seriesKey(one.GetSeries())
		// The sum of others always has a place.
		if known[key] == nil && len(known) >= maxSeries && !series.GetOthers() {
			series, key = others, seriesKey(others)
			merged++
		}
		if known[key] == nil {
			known[key] = &platformv1.StoredSeries{}
			sums.Series = append(sums.Series, known[key])
		}
		sum := known[key]
		sum.Series = series // the Application as of the newest report
		for i, n := range one.GetStatuses() {
			sum.Statuses = grown(sum.Statuses, i)
			sum.Statuses[i] += n
		}
		for i, n := range one.GetSpread() {
			sum.Spread = grown(sum.Spread, i)
			sum.Spread[i] += n
		}
	}
	sums.Merged = max(sums.GetMerged(), merged)
}
