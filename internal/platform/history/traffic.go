package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	// minutesKept is how long minutes are kept: a day, and a margin for those
	// who look at the last one.
	minutesKept = 25 * time.Hour
	// edgesKept is how long the counts of an edge that no longer reports are
	// kept.
	edgesKept = 2 * day
	// maxPoints bounds the points of a series.
	maxPoints = 200
	// defaultSeries and mostSeries bound the series of a response.
	defaultSeries = 50
	mostSeries    = 1000
	// maxViewed bounds the series that a request keeps in memory, each with all
	// of its points. Requests of further ones are summed up in one.
	maxViewed = 2000
	// maxTrafficSpan bounds the span of a request.
	maxTrafficSpan = 100 * day
)

// GetTrafficHistory returns the requests of a runtime in a span, in total and by
// series.
func (h *History) GetTrafficHistory(ctx context.Context, request *connect.Request[platformv1.GetTrafficHistoryRequest]) (*connect.Response[platformv1.GetTrafficHistoryResponse], error) {
	given := request.Msg
	if given.GetRuntime() == "" {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("name a runtime"))
	}
	shown, filter, err := h.query(ctx, &platformv1.DeploymentFilter{Runtime: given.GetRuntime(), Since: given.GetSince(), Until: given.GetUntil()})
	if err != nil {
		return nil, h.apiError(err)
	}
	view, err := newTrafficView(filter.Since, filter.Until, h.now())
	if err != nil {
		return nil, err
	}
	// Rows of a busy runtime are large, so only some of them are in memory at a
	// time.
	for from := view.since; from.Before(view.until); {
		rows, err := h.store.TrafficSums(ctx, filter.RuntimeID, view.stored, from, view.until)
		if err != nil {
			return nil, h.apiError(err)
		}
		for _, row := range rows {
			if err := shown.addRow(ctx, view, filter.RuntimeID, given, row); err != nil {
				return nil, h.apiError(err)
			}
		}
		if len(rows) < store.MaxTrafficRows {
			break
		}
		from = rows[len(rows)-1].At.Add(view.stored)
	}
	return connect.NewResponse(view.message(int(given.GetLimit()))), nil
}

// addRow adds the series of a stored row that the request is about and the
// caller may see.
func (v *visibility) addRow(ctx context.Context, view *trafficView, runtimeID string, given *platformv1.GetTrafficHistoryRequest, row store.TrafficSum) error {
	sums := &platformv1.StoredTraffic{}
	if err := proto.Unmarshal(row.Sums, sums); err != nil {
		return err
	}
	merged := int32(0)
	// The number of others is about series of all Applications.
	if v.seesUnowned() {
		merged = sums.GetMerged()
	}
	for _, series := range sums.GetSeries() {
		if !selected(given, series.GetSeries()) {
			continue
		}
		visible, err := v.seesSeries(ctx, runtimeID, series.GetSeries())
		if err != nil {
			return err
		}
		if visible && !view.add(row.At, series) {
			merged++
		}
	}
	view.merged = max(view.merged, merged)
	return nil
}

// selected reports whether a request is about a series. Filters are applied here
// and not in the database, which has all series of a step in one value.
func selected(given *platformv1.GetTrafficHistoryRequest, series *platformv1.TrafficSeries) bool {
	matches := func(wanted, is string) bool { return wanted == "" || wanted == is }
	return matches(given.GetHost(), series.GetHost()) && matches(given.GetNamespace(), series.GetApplicationNamespace()) && matches(given.GetApplication(), series.GetApplication())
}

// seesUnowned reports whether the caller may see what no Application owns, such
// as requests without a route: those who may see the runtime's traffic at all.
func (v *visibility) seesUnowned() bool {
	return permission.Rule{Permission: permission.View}.Role(string(v.caller.User.Role))
}

// seesSeries reports whether the caller may see a series, by the right on its
// Application.
func (v *visibility) seesSeries(ctx context.Context, runtimeID string, series *platformv1.TrafficSeries) (bool, error) {
	if series.GetApplication() == "" {
		return v.seesUnowned(), nil
	}
	_, allowed, err := v.sees(ctx, application{runtimeID, series.GetProject(), series.GetApplicationNamespace(), series.GetApplication()})
	return allowed, err
}

// trafficView sums up stored steps as points of a response. Histograms are added
// before quantiles are read from them: quantiles of parts cannot be combined.
type trafficView struct {
	since, until time.Time
	// stored is the step of the rows that are read, and step that of points.
	stored, step time.Duration
	total        *seriesView
	series       map[string]*seriesView
	merged       int32
}

// seriesView has the sums of a series, in total and for each point.
type seriesView struct {
	series *platformv1.TrafficSeries
	sum    trafficSum
	points []trafficSum
}

type trafficSum struct{ statuses, spread []uint64 }

// newTrafficView rounds a span to steps and chooses their length: minutes as
// long as there are minutes, and as few of them as a chart can show.
func newTrafficView(since, until, now time.Time) (*trafficView, error) {
	if until.IsZero() || until.After(now) {
		until = now
	}
	if since.IsZero() {
		since = until.Add(-time.Hour)
	}
	span := until.Sub(since)
	if span <= 0 || span > maxTrafficSpan {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the span must end after it begins, and have at most %d days", maxTrafficSpan/day))
	}
	// One kind of row per response: minutes are complete or not used at all.
	v := &trafficView{stored: store.TrafficMinute, series: map[string]*seriesView{}}
	if now.Sub(since) > minutesKept {
		v.stored = store.TrafficHour
	}
	// Steps that people expect: parts of an hour, and of a day.
	factors := []time.Duration{1, 2, 5, 10, 15, 30, 60}
	if v.stored == store.TrafficHour {
		factors = []time.Duration{1, 2, 4, 6, 12, 24}
	}
	for _, factor := range factors {
		if v.step = factor * v.stored; span/v.step <= maxPoints {
			break
		}
	}
	// Whole steps, so that the last point is the one that is under way.
	v.since = since.UTC().Truncate(v.step)
	v.until = until.UTC().Truncate(v.step)
	if v.until.Before(until) {
		v.until = v.until.Add(v.step)
	}
	v.total = newSeriesView(int(v.until.Sub(v.since) / v.step))
	return v, nil
}

// add adds a stored series. It reports false if there is no place for one more:
// a row has few series, but those of many rows may all be different.
func (v *trafficView) add(at time.Time, stored *platformv1.StoredSeries) (placed bool) {
	series := stored.GetSeries()
	key := seriesKey(series)
	if placed = v.series[key] != nil || len(v.series) < maxViewed; !placed {
		series = &platformv1.TrafficSeries{Others: true}
		key = seriesKey(series)
	}
	if v.series[key] == nil {
		v.series[key] = newSeriesView(len(v.total.points))
	}
	one := v.series[key]
	one.series = series // rows come in order: the newest Application counts
	point := int(at.Sub(v.since) / v.step)
	for _, s := range []*seriesView{v.total, one} {
		s.sum.add(stored)
		s.points[point].add(stored)
	}
	return placed
}

func newSeriesView(points int) *seriesView { return &seriesView{points: make([]trafficSum, points)} }

func (s *trafficSum) add(stored *platformv1.StoredSeries) {
	for i, n := range stored.GetStatuses() {
		s.statuses = grown(s.statuses, i)
		s.statuses[i] += n
	}
	for i, n := range stored.GetSpread() {
		s.spread = grown(s.spread, i)
		s.spread[i] += n
	}
}

// message returns the response with the series that have the most requests, in
// an order that does not change between responses with the same numbers.
func (v *trafficView) message(limit int) *platformv1.GetTrafficHistoryResponse {
	if limit <= 0 {
		limit = defaultSeries
	}
	response := &platformv1.GetTrafficHistoryResponse{
		Since: timestamppb.New(v.since), Until: timestamppb.New(v.until), Step: durationpb.New(v.step), Total: v.total.message(), SeriesMerged: v.merged,
	}
	var all []*seriesView
	for _, one := range v.series {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *seriesView) int {
		return cmp.Or(cmp.Compare(requests(b.sum.statuses), requests(a.sum.statuses)), cmp.Compare(seriesKey(a.series), seriesKey(b.series)))
	})
	if more := len(all) - min(limit, mostSeries); more > 0 {
		all, response.SeriesLeftOut = all[:len(all)-more], int32(more)
	}
	for _, one := range all {
		response.Series = append(response.Series, one.message())
	}
	return response
}

func (s *seriesView) message() *platformv1.TrafficHistory {
	m := &platformv1.TrafficHistory{Series: s.series, Sum: s.sum.message()}
	for i := range s.points {
		m.Points = append(m.Points, s.points[i].message())
	}
	return m
}

// message converts a sum. Errors are those of the page of the current traffic.
func (s *trafficSum) message() *platformv1.TrafficPoint {
	of := func(class int) uint64 {
		if class < len(s.statuses) {
			return s.statuses[class]
		}
		return 0
	}
	return &platformv1.TrafficPoint{
		Requests: requests(s.statuses), Errors: of(5), ClientErrors: of(4),
		P50: trafficreport.Quantile(s.spread, 0.5).Seconds(), P99: trafficreport.Quantile(s.spread, 0.99).Seconds(),
	}
}
