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

// state is what is told and what is to be told. It changes by steps that are on
// disk, and the same steps give the same state: also after a crash a number means
// what it meant before.
//
//	waiting   one event for each Application that the platform is behind with
//	flying    numbered, and sent until the platform has them
//	known     what the platform has when both are empty
type state struct {
	stream string
	next   int64
	// resyncing is a resync that has not ended. Its events are not on disk.
	resyncing bool
	// lost is a resync that is needed: nothing waits until it begins.
	lost    bool
	flying  []*platformv1.ReportEvent
	waiting *queue
	known   map[place]print
}

// place is where an Application is.
type place struct{ Namespace, Name string }

// print tells states of an Application apart.
type print struct{ UID, hash string }

func newState() *state {
	return &state{next: 1, lost: true, waiting: newQueue(), known: map[place]print{}}
}

// subject is the Application that an event is about.
func subject(event *platformv1.ReportEvent) *platformv1.Application {
	if gone := event.GetDeleted(); gone != nil {
		return gone
	}
	return event.GetApplication()
}

func placeOf(app *platformv1.Application) place { return place{app.GetNamespace(), app.GetName()} }

// printOf is the print of a state. When it was seen does not matter.
func printOf(app *platformv1.Application) print {
	bare := proto.CloneOf(app)
	bare.SeenAt = nil
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(bare)
	if err != nil {
		return print{UID: app.GetUid()} // never equal to one that has a hash
	}
	sum := sha256.Sum256(body)
	return print{app.GetUid(), hex.EncodeToString(sum[:16])}
}

func (s *state) knowText(where, text string) error {
	namespace, name, found := strings.Cut(where, "/")
	uid, hash, divided := strings.Cut(text, " ")
	if !found || !divided {
		return fmt.Errorf("the spool knows an Application that cannot be read")
	}
	s.known[place{namespace, name}] = print{uid, hash}
	return nil
}

// news reports whether an event says something that was not said.
func (s *state) news(event *platformv1.ReportEvent) bool {
	known, there := s.known[placeOf(subject(event))]
	if gone := event.GetDeleted(); gone != nil {
		// One that was made again since is not gone.
		return there && (gone.GetUid() == "" || known.UID == gone.GetUid())
	}
	return !there || known != printOf(event.GetApplication())
}

func (s *state) put(event *platformv1.ReportEvent) {
	where := placeOf(subject(event))
	if event.GetDeleted() != nil {
		delete(s.known, where)
	} else {
		s.known[where] = printOf(event.GetApplication())
	}
	s.waiting.put(event)
}

// take numbers the first events that wait.
func (s *state) take(count int) {
	for range count {
		event := s.waiting.pop()
		event.Number = s.next
		s.next++
		s.flying = append(s.flying, event)
	}
}

// begin is a new stream that begins with a resync.
func (s *state) begin(stream string) {
	s.stream, s.next, s.resyncing, s.lost = stream, 1, true, false
	s.flying, s.waiting, s.known = nil, newQueue(), map[place]print{}
}

// end is a resync that the platform has.
func (s *state) end(next int64) { s.next, s.resyncing = next, false }

// lose drops what waits.
func (s *state) lose() {
	s.lost, s.flying, s.waiting, s.known = true, nil, newQueue(), map[place]print{}
}

// queue has one event for each Application, in the order of the first of those
// that it stands for.
type queue struct {
	order *list.List
	at    map[place]*list.Element
	bytes int64
}

func newQueue() *queue { return &queue{order: list.New(), at: map[place]*list.Element{}} }

func (q *queue) len() int { return q.order.Len() }

// put adds an event, in the place of an older one about the same Application.
func (q *queue) put(event *platformv1.ReportEvent) {
	where := placeOf(subject(event))
	q.bytes += int64(proto.Size(event))
	if older, there := q.at[where]; there {
		q.bytes -= int64(proto.Size(older.Value.(*platformv1.ReportEvent)))
		older.Value = event
		return
	}
	q.at[where] = q.order.PushBack(event)
}

func (q *queue) pop() *platformv1.ReportEvent {
	first := q.order.Front()
	event := q.order.Remove(first).(*platformv1.ReportEvent)
	q.bytes -= int64(proto.Size(event))
	delete(q.at, placeOf(subject(event)))
	return event
}

// fit is how many of the first events fit into a batch; one always does.
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

func (q *queue) events() []*platformv1.ReportEvent {
	var all []*platformv1.ReportEvent
	for each := q.order.Front(); each != nil; each = each.Next() {
		all = append(all, each.Value.(*platformv1.ReportEvent))
	}
	return all
}
