package status

import (
	"maps"
	"slices"
	"time"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

const (
	// notReadyGrace is how long something may be missing before it is told.
	notReadyGrace = 10 * time.Second
	// notFoundGrace is shorter: objects that are applied together come one
	// after the other.
	notFoundGrace = 2 * time.Second

	// An object gets no more Events than this in each span.
	eventsPerObject = 10
	eventPeriod     = time.Minute

	// countLimit bounds the texts whose number is remembered for one object.
	countLimit = 100
)

// eventRecorder is what is refused of one object, and what was told about it.
type eventRecorder struct {
	// refusals are the engine's, own those of the Writer itself, and missed what
	// the leader could not get, by its name.
	refusals      []snapshot.Fault
	own           []snapshot.Fault
	fetchFailures map[string]snapshot.Fault
	// active has each of them.
	active map[snapshot.Fault]*activeRefusal
	// reported says that an Event was written that nothing has taken back.
	reported bool
	counts   map[eventPayload]int
	// recent are the times of the last Events.
	recent []time.Time

	failures  int
	notBefore time.Time
}

// activeRefusal is a refusal that holds.
type activeRefusal struct {
	since    time.Time
	reported bool
}

// eventPayload is what an Event says: a fault, or that there is none any more.
type eventPayload struct {
	fault    snapshot.Fault
	accepted bool
}

func newEventRecorder() *eventRecorder {
	return &eventRecorder{active: map[snapshot.Fault]*activeRefusal{}, counts: map[eventPayload]int{}}
}

// updateActive makes the open refusals those that hold now.
func (a *eventRecorder) updateActive(now time.Time) {
	holds := make(map[snapshot.Fault]*activeRefusal, len(a.refusals)+len(a.own)+len(a.fetchFailures))
	for _, fault := range a.faults() {
		known := a.active[fault]
		if known == nil {
			known = &activeRefusal{since: now}
		}
		holds[fault] = known
	}
	a.active = holds
}

// faults are all of them, in the order in which they are told.
func (a *eventRecorder) faults() []snapshot.Fault {
	all := slices.Concat(a.refusals, a.own)
	for _, name := range slices.Sorted(maps.Keys(a.fetchFailures)) {
		all = append(all, a.fetchFailures[name])
	}
	return all
}

// forgetReported makes everything news again, for a new leader or a new object.
func (a *eventRecorder) forgetReported() {
	a.reported = false
	for _, opened := range a.active {
		opened.reported = false
	}
}

// empty says that there is nothing left to know.
func (a *eventRecorder) empty() bool {
	return len(a.active) == 0 && !a.reported && len(a.recent) == 0
}

// next is what to tell at this moment, if anything, and else when to look again;
// zero when only a change is a reason to.
func (a *eventRecorder) next(now time.Time) (news *eventPayload, rest time.Duration) {
	a.recent = slices.DeleteFunc(a.recent, func(at time.Time) bool { return now.Sub(at) >= eventPeriod })
	news, rest = a.nextUnreported(now)
	if news == nil {
		if rest == 0 && len(a.active) == 0 && len(a.recent) > 0 {
			rest = a.recent[len(a.recent)-1].Add(eventPeriod).Sub(now)
		}
		return nil, rest
	}
	if rest := a.notBefore.Sub(now); rest > 0 {
		return nil, rest
	}
	if len(a.recent) >= eventsPerObject {
		return nil, a.recent[0].Add(eventPeriod).Sub(now)
	}
	return news, 0
}

// nextUnreported finds what was not told yet, in the order of the list.
func (a *eventRecorder) nextUnreported(now time.Time) (*eventPayload, time.Duration) {
	var rest time.Duration
	for _, fault := range a.faults() {
		opened := a.active[fault]
		if opened.reported {
			continue
		}
		if more := opened.since.Add(graceFor(fault.Reason)).Sub(now); more > 0 {
			if rest == 0 || more < rest {
				rest = more
			}
			continue
		}
		return &eventPayload{fault: fault}, 0
	}
	if len(a.active) == 0 && a.reported {
		return &eventPayload{accepted: true}, 0
	}
	return nil, rest
}

// graceFor is how long a refusal may be gone again without having been told.
func graceFor(reason snapshot.Reason) time.Duration {
	switch reason {
	case snapshot.NotReady:
		return notReadyGrace
	case snapshot.NotFound:
		return notFoundGrace
	default:
		return 0
	}
}

// times is how often it will have been told when it is told now.
func (a *eventRecorder) times(news eventPayload) int { return a.counts[news] + 1 }

// markSent notes that an Event was written.
func (a *eventRecorder) markSent(news eventPayload, now time.Time) {
	a.countEvent(now)
	a.failures, a.notBefore = 0, time.Time{}
	if len(a.counts) >= countLimit {
		clear(a.counts)
	}
	a.counts[news]++
	if news.accepted {
		// What was refused since then was not told by this Event.
		a.reported = false
		return
	}
	a.reported = true
	if opened := a.active[news.fault]; opened != nil {
		opened.reported = true
	}
}

// giveUp gives an Event up that the API server will never take.
func (a *eventRecorder) giveUp(news eventPayload, now time.Time) {
	a.countEvent(now)
	if news.accepted {
		a.reported = false
	} else if opened := a.active[news.fault]; opened != nil {
		opened.reported = true
	}
}

// fail puts the next try off.
func (a *eventRecorder) fail(now time.Time) {
	a.failures++
	a.notBefore = now.Add(retryAfter(a.failures))
}

func (a *eventRecorder) countEvent(now time.Time) { a.recent = append(a.recent, now) }
