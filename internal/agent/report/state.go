package report

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// state has the events that are sent and those that are not. It changes by
// records that are on disk, and the same records give the same state: after a
// crash a number means what it meant before.
//
//	waiting    one event for each Application that the platform is behind with
//	inFlight   numbered, and sent until the platform confirms them
//	reported   what the platform has when both are empty
type state struct {
	stream string
	next   int64
	// resyncing is a resync that has not ended. Its events are not on disk.
	resyncing bool
	// lost means that a resync is needed: nothing waits until it begins.
	lost     bool
	inFlight []*platformv1.ReportEvent
	waiting  *queue
	reported map[appID]fingerprint
}

// appID identifies an Application.
type appID struct{ Namespace, Name string }

// fingerprint distinguishes states of an Application.
type fingerprint struct{ UID, hash string }

// newState returns an empty state.
func newState() *state {
	return &state{next: 1, lost: true, waiting: newQueue(), reported: map[appID]fingerprint{}}
}

// subject returns the Application of an event.
func subject(event *platformv1.ReportEvent) *platformv1.Application {
	if gone := event.GetDeleted(); gone != nil {
		return gone
	}
	return event.GetApplication()
}

// appIDOf returns the identity of an Application.
func appIDOf(app *platformv1.Application) appID { return appID{app.GetNamespace(), app.GetName()} }

// fingerprintOf returns the fingerprint of a state. The time of observation is
// not part of it, nor are syncs: each one changes the operation too, and merged
// events have more of them.
func fingerprintOf(app *platformv1.Application) fingerprint {
	bare := proto.CloneOf(app)
	bare.SeenAt, bare.Syncs = nil, nil
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(bare)
	if err != nil {
		return fingerprint{UID: app.GetUid()} // never equal to one that has a hash
	}
	sum := sha256.Sum256(body)
	return fingerprint{app.GetUid(), hex.EncodeToString(sum[:16])}
}

// restoreReported adds one reported Application of a snapshot.
func (s *state) restoreReported(where, text string) error {
	namespace, name, found := strings.Cut(where, "/")
	uid, hash, divided := strings.Cut(text, " ")
	if !found || !divided {
		return fmt.Errorf("the spool knows an Application that cannot be read")
	}
	s.reported[appID{namespace, name}] = fingerprint{uid, hash}
	return nil
}

// isNew reports whether an event differs from what was reported or waits.
func (s *state) isNew(event *platformv1.ReportEvent) bool {
	known, there := s.reported[appIDOf(subject(event))]
	if gone := event.GetDeleted(); gone != nil {
		// One that was made again since is not gone.
		return there && (gone.GetUid() == "" || known.UID == gone.GetUid())
	}
	return !there || known != fingerprintOf(event.GetApplication())
}

// put adds an event that waits.
func (s *state) put(event *platformv1.ReportEvent) {
	where := appIDOf(subject(event))
	if event.GetDeleted() != nil {
		delete(s.reported, where)
	} else {
		s.reported[where] = fingerprintOf(event.GetApplication())
	}
	s.waiting.put(event)
}

// take numbers the first waiting events.
func (s *state) take(count int) {
	for range count {
		event := s.waiting.pop()
		event.Number = s.next
		s.next++
		s.inFlight = append(s.inFlight, event)
	}
}

// begin starts a stream with a resync.
func (s *state) begin(stream string) {
	s.stream, s.next, s.resyncing, s.lost = stream, 1, true, false
	s.inFlight, s.waiting, s.reported = nil, newQueue(), map[appID]fingerprint{}
}

// end ends a resync that the platform has received.
func (s *state) end(next int64) { s.next, s.resyncing = next, false }

// drop removes all waiting events.
func (s *state) drop() {
	s.lost, s.inFlight, s.waiting, s.reported = true, nil, newQueue(), map[appID]fingerprint{}
}

// queue has one event for each Application, in the order of the first event of
// each.
type queue struct {
	order *list.List
	at    map[appID]*list.Element
	bytes int64
}

// newQueue returns an empty queue.
func newQueue() *queue { return &queue{order: list.New(), at: map[appID]*list.Element{}} }

// len returns the number of events.
func (q *queue) len() int { return q.order.Len() }

// put adds an event, or replaces an older one of the same Application, whose
// syncs it keeps: the status has the last failed one only.
func (q *queue) put(event *platformv1.ReportEvent) {
	where := appIDOf(subject(event))
	older, there := q.at[where]
	if there {
		before := older.Value.(*platformv1.ReportEvent).GetApplication()
		if app := event.GetApplication(); app != nil && len(before.GetSyncs()) > 0 && before.GetUid() == app.GetUid() {
			app.Syncs = mergeSyncs(before.GetSyncs(), app.GetSyncs())
		}
	}
	q.bytes += int64(proto.Size(event))
	if there {
		q.bytes -= int64(proto.Size(older.Value.(*platformv1.ReportEvent)))
		older.Value = event
		return
	}
	q.at[where] = q.order.PushBack(event)
}

// pop removes the first event.
func (q *queue) pop() *platformv1.ReportEvent {
	first := q.order.Front()
	event := q.order.Remove(first).(*platformv1.ReportEvent)
	q.bytes -= int64(proto.Size(event))
	delete(q.at, appIDOf(subject(event)))
	return event
}

// fit returns how many of the first events fit into a batch; at least one.
func (q *queue) fit(events int, bytes int64) int {
	count, total := 0, int64(0)
	for each := q.order.Front(); each != nil && count < events; each = each.Next() {
		total += int64(proto.Size(each.Value.(*platformv1.ReportEvent)))
		if count > 0 && total > bytes {
			break
		}
		count++
	}
	return count
}

// events returns all events in order.
func (q *queue) events() []*platformv1.ReportEvent {
	var all []*platformv1.ReportEvent
	for each := q.order.Front(); each != nil; each = each.Next() {
		all = append(all, each.Value.(*platformv1.ReportEvent))
	}
	return all
}
