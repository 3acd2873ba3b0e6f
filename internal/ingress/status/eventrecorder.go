package status

import (
	"maps"
	"slices"
	"time"

	"slipway.dev/slipway/api/refusal"
)

const (
	// notReadyGrace is how long an object may be not ready before an Event is written.
	notReadyGrace = 10 * time.Second
	// notFoundGrace is shorter: objects that are applied together arrive one
	// after the other, within a moment.
	notFoundGrace = 2 * time.Second

	// An object gets no more Events than this in each period.
	eventsPerObject = 10
	eventPeriod     = time.Minute

	// countLimit bounds the number of Event payloads that are counted for one
	// object. At the limit the counts start over.
	countLimit = 100
)

// eventRecorder has the current refusals of one object and the Events about it. The
// mutex of the Writer guards it.
type eventRecorder struct {
	// refusals are the engine's, own those of the Writer itself, and fetchFailures
	// those of certificates that the leader could not get, by name of the Secret.
	refusals      []refusal.Refusal
	own           []refusal.Refusal
	fetchFailures map[string]refusal.Refusal
	// active has each of them.
	active map[refusal.Refusal]*activeRefusal
	// reported is set while a Refused Event stands without an Accepted Event
	// after it.
	reported bool
	counts   map[eventPayload]int
	// recent are the times of the Events of the last period, oldest first.
	recent []time.Time

	failures  int
	notBefore time.Time
}

// activeRefusal is a current refusal: since when, and whether an Event was
// written.
type activeRefusal struct {
	since    time.Time
	reported bool
}

// eventPayload is the content of an Event: a fault, or that there is none any more.
type eventPayload struct {
	fault    refusal.Refusal
	accepted bool
}

func newEventRecorder() *eventRecorder {
	return &eventRecorder{active: map[refusal.Refusal]*activeRefusal{}, counts: map[eventPayload]int{}}
}

// updateActive rebuilds active from the current faults. A fault that continues
// keeps its age, and so is not reported again.
func (a *eventRecorder) updateActive(now time.Time) {
	holds := make(map[refusal.Refusal]*activeRefusal, len(a.refusals)+len(a.own)+len(a.fetchFailures))
	for _, fault := range a.faults() {
		known := a.active[fault]
		if known == nil {
			known = &activeRefusal{since: now}
		}
		holds[fault] = known
	}
	a.active = holds
}

// faults returns all faults, in the order in which they are reported.
func (a *eventRecorder) faults() []refusal.Refusal {
	all := slices.Concat(a.refusals, a.own)
	for _, name := range slices.Sorted(maps.Keys(a.fetchFailures)) {
		all = append(all, a.fetchFailures[name])
	}
	return all
}

// forgetReported makes everything reportable again, for a new leader or a new
// object of the same name.
func (a *eventRecorder) forgetReported() {
	a.reported = false
	for _, opened := range a.active {
		opened.reported = false
	}
}

// empty reports whether the recorder holds nothing worth keeping.
func (a *eventRecorder) empty() bool {
	return len(a.active) == 0 && !a.reported && len(a.recent) == 0
}

// next returns the Event to write now, or nil and when to check again; zero means
// after the next change only.
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

// nextUnreported returns the first fault without an Event whose grace is over, or
// the Accepted Event when all faults are gone.
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

// graceFor returns how long a refusal must last before it is reported.
func graceFor(reason refusal.Reason) time.Duration {
	switch reason {
	case refusal.NotReady:
		return notReadyGrace
	case refusal.NotFound:
		return notFoundGrace
	default:
		return 0
	}
}

// times returns the count of an Event, this one included.
func (a *eventRecorder) times(news eventPayload) int { return a.counts[news] + 1 }

// markSent records that an Event was written.
func (a *eventRecorder) markSent(news eventPayload, now time.Time) {
	a.countEvent(now)
	a.failures, a.notBefore = 0, time.Time{}
	if len(a.counts) >= countLimit {
		clear(a.counts)
	}
	a.counts[news]++
	if news.accepted {
		// Refusals that came meanwhile are not part of this Event.
		a.reported = false
		return
	}
	a.reported = true
	if opened := a.active[news.fault]; opened != nil {
		opened.reported = true
	}
}

// giveUp drops an Event that the API server rejects permanently. It counts against
// the limit of the object.
func (a *eventRecorder) giveUp(news eventPayload, now time.Time) {
	a.countEvent(now)
	if news.accepted {
		a.reported = false
	} else if opened := a.active[news.fault]; opened != nil {
		opened.reported = true
	}
}

// fail delays the next attempt with backoff.
func (a *eventRecorder) fail(now time.Time) {
	a.failures++
	a.notBefore = now.Add(retryAfter(a.failures))
}

func (a *eventRecorder) countEvent(now time.Time) { a.recent = append(a.recent, now) }
