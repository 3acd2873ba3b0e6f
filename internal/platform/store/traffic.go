package store

import (
	"context"
	"time"
)

// The steps that traffic is summed up for.
const (
	TrafficMinute = time.Minute
	TrafficHour   = time.Hour
)

const (
	// maxTrafficEdges bounds the edges of a runtime whose counts are kept.
	maxTrafficEdges = 256
	// MaxTrafficRows bounds a list of sums. A row has up to some hundred
	// kilobytes.
	MaxTrafficRows = 100
	// trafficBatch is the number of sums deleted per transaction; fewer than of
	// other rows, because each is large.
	trafficBatch = 500
)

// TrafficSum is a row: all series of a runtime in one step, encoded by the
// caller.
type TrafficSum struct {
	At   time.Time
	Sums []byte
}

// TrafficChange is a change of the traffic of one edge, within a transaction. It
// must not be used after the callback has returned.
type TrafficChange struct {
	call          *call
	runtime, edge string
}

// ChangeTraffic changes the traffic of an edge in one transaction. The callback
// may be called again after a collision. A runtime that does not exist is
// ErrNotFound.
func (s *Store) ChangeTraffic(ctx context.Context, runtimeID, edge string, change func(*TrafficChange) error) error {
	if edge == "" || len(edge) > maxName {
		return invalid("the name of an edge has 1 to %d bytes", maxName)
	}
	return s.write(ctx, func(c *call) error {
		if _, err := runtimeByID(c, runtimeID); err != nil {
			return err
		}
		return change(&TrafficChange{c, runtimeID, edge})
	})
}

// Counts returns what the edge had counted at its last report; nil for a new
// edge.
func (t *TrafficChange) Counts() ([]byte, error) {
	return firstBlob(t.call, "SELECT counts FROM traffic_edges WHERE runtime_id = $1 AND edge = $2", t.runtime, t.edge)
}

// SetCounts stores what the edge has counted. Of too many edges the oldest are
// forgotten.
func (t *TrafficChange) SetCounts(counts []byte) error {
	_, err := t.call.exec(`INSERT INTO traffic_edges (runtime_id, edge, seen_at, counts) VALUES ($1, $2, $3, $4)
		ON CONFLICT (runtime_id, edge) DO UPDATE SET seen_at = excluded.seen_at, counts = excluded.counts`,
		t.runtime, t.edge, micros(t.call.now), blob(counts))
	if err != nil {
		return err
	}
	number, err := queryOne(t.call, scanNumber, "SELECT count(*) FROM traffic_edges WHERE runtime_id = $1", t.runtime)
	if err != nil || number <= maxTrafficEdges {
		return err
	}
	_, err = t.call.exec(`DELETE FROM traffic_edges WHERE runtime_id = $1 AND edge IN (
		SELECT edge FROM traffic_edges WHERE runtime_id = $1 AND edge <> $2 ORDER BY seen_at LIMIT $3)`, t.runtime, t.edge, number-maxTrafficEdges)
	return err
}

// Sums returns the sums of a step; nil if there are none yet.
func (t *TrafficChange) Sums(step time.Duration, at time.Time) ([]byte, error) {
	return firstBlob(t.call, "SELECT sums FROM traffic_sums WHERE runtime_id = $1 AND step = $2 AND at = $3", t.runtime, seconds(step), micros(at))
}

// SetSums stores the sums of a step.
func (t *TrafficChange) SetSums(step time.Duration, at time.Time, sums []byte) error {
	_, err := t.call.exec(`INSERT INTO traffic_sums (runtime_id, step, at, sums) VALUES ($1, $2, $3, $4)
		ON CONFLICT (runtime_id, step, at) DO UPDATE SET sums = excluded.sums`, t.runtime, seconds(step), micros(at), blob(sums))
	return err
}

// TrafficSums returns the sums of a runtime in a half-open interval, in order,
// and at most MaxTrafficRows of them. The caller checks that the runtime is of the account.
func (s *Store) TrafficSums(ctx context.Context, runtimeID string, step time.Duration, since, until time.Time) ([]TrafficSum, error) {
	return readAll(ctx, s, func(r row) (sum TrafficSum, err error) {
		return sum, r.Scan(timeColumn{&sum.At}, blobColumn{&sum.Sums})
	},
		"SELECT at, sums FROM traffic_sums WHERE runtime_id = $1 AND step = $2 AND at >= $3 AND at < $4 ORDER BY at LIMIT $5",
		runtimeID, seconds(step), micros(since), micros(until), MaxTrafficRows)
}

// ExpireTraffic deletes one batch of the sums of a step that began before a
// time, and reports whether there may be more.
func (s *Store) ExpireTraffic(ctx context.Context, step time.Duration, before time.Time) (more bool, err error) {
	n, err := s.exec(ctx, `DELETE FROM traffic_sums WHERE (runtime_id, step, at) IN (
		SELECT runtime_id, step, at FROM traffic_sums WHERE step = $1 AND at < $2 ORDER BY at LIMIT $3)`, seconds(step), micros(before), trafficBatch)
	return n == trafficBatch, err
}

// ExpireTrafficEdges deletes one batch of counts of edges that have not
// reported since a time. An edge that reports again afterwards is a new one.
func (s *Store) ExpireTrafficEdges(ctx context.Context, before time.Time) (more bool, err error) {
	n, err := s.exec(ctx, `DELETE FROM traffic_edges WHERE (runtime_id, edge) IN (
		SELECT runtime_id, edge FROM traffic_edges WHERE seen_at < $1 ORDER BY seen_at LIMIT $2)`, micros(before), expireBatch)
	return n == expireBatch, err
}

// firstBlob returns the bytes of the first row; nil without one.
func firstBlob(c *call, query string, args ...any) ([]byte, error) {
	all, err := queryAll(c, func(r row) (b []byte, err error) { return b, r.Scan(blobColumn{&b}) }, query, args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

func seconds(step time.Duration) int64 { return int64(step / time.Second) }
