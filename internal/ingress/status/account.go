package status

import (
	"maps"
	"slices"
	"time"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

const (
	// notReadyPatience is how long something may be missing before it is told.
	notReadyPatience = 10 * time.Second
	// notFoundPatience is shorter: objects that are applied together come one
	// after the other.
	notFoundPatience = 2 * time.Second

	// An object gets no more Events than this in each span.
	accountEvents = 10
	accountSpan   = time.Minute

	// countLimit bounds the texts whose number is remembered for one object.
	countLimit = 100
)

// account is what is refused of one object, and what was told about it.
type account struct {
	// refusals are the engine's, own those of the Writer itself, and missed what
	// the leader could not get, by its name.
	refusals []snapshot.Fault
	own      []snapshot.Fault
	missed   map[string]snapshot.Fault
	// open has each of them.
	open map[snapshot.Fault]*opening
	// told says that an Event was written that nothing has taken back.
	told   bool
	counts map[tiding]int
	// recent are the times of the last Events.
	recent []time.Time

	failures  int
	notBefore time.Time
}

// opening is a refusal that holds.
type opening struct {
	since time.Time
	told  bool
}

// tiding is what an Event says: a fault, or that there is none any more.
type tiding struct {
	fault    snapshot.Fault
	accepted bool
}

func newAccount() *account {
	return &account{open: map[snapshot.Fault]*opening{}, counts: map[tiding]int{}}
}

// settle makes the open refusals those that hold now.
func (a *account) settle(now time.Time) {
	holds := make(map[snapshot.Fault]*opening, len(a.refusals)+len(a.own)+len(a.missed))
	for _, fault := range a.faults() {
		known := a.open[fault]
		if known == nil {
			known = &opening{since: now}
		}
		holds[fault] = known
	}
	a.open = holds
}

// faults are all of them, in the order in which they are told.
func (a *account) faults() []snapshot.Fault {
	all := slices.Concat(a.refusals, a.own)
	for _, name := range slices.Sorted(maps.Keys(a.missed)) {
		all = append(all, a.missed[name])
	}
	return all
}

// forgetTold makes everything news again, for a new leader or a new object.
func (a *account) forgetTold() {
	a.told = false
	for _, opened := range a.open {
		opened.told = false
	}
}

// empty says that there is nothing left to know.
func (a *account) empty() bool {
	return len(a.open) == 0 && !a.told && len(a.recent) == 0
}

// next is what to tell at this moment, if anything, and else when to look again;
// zero when only a change is a reason to.
func (a *account) next(now time.Time) (news *tiding, rest time.Duration) {
	a.recent = slices.DeleteFunc(a.recent, func(at time.Time) bool { return now.Sub(at) >= accountSpan })
	news, rest = a.untold(now)
	if news == nil {
		if rest == 0 && len(a.open) == 0 && len(a.recent) > 0 {
			rest = a.recent[len(a.recent)-1].Add(accountSpan).Sub(now)
		}
		return nil, rest
	}
	if rest := a.notBefore.Sub(now); rest > 0 {
		return nil, rest
	}
	if len(a.recent) >= accountEvents {
		return nil, a.recent[0].Add(accountSpan).Sub(now)
	}
	return news, 0
}

// untold finds what was not told yet, in the order of the list.
func (a *account) untold(now time.Time) (*tiding, time.Duration) {
	var rest time.Duration
	for _, fault := range a.faults() {
		opened := a.open[fault]
		if opened.told {
			continue
		}
		if more := opened.since.Add(patienceWith(fault.Reason)).Sub(now); more > 0 {
			if rest == 0 || more < rest {
				rest = more
			}
			continue
		}
		return &tiding{fault: fault}, 0
	}
	if len(a.open) == 0 && a.told {
		return &tiding{accepted: true}, 0
	}
	return nil, rest
}

// patienceWith is how long a refusal may be gone again without having been told.
func patienceWith(reason snapshot.Reason) time.Duration {
	switch reason {
	case snapshot.NotReady:
		return notReadyPatience
	case snapshot.NotFound:
		return notFoundPatience
	default:
		return 0
	}
}

// times is how often it will have been told when it is told now.
func (a *account) times(news tiding) int { return a.counts[news] + 1 }

// tell notes that an Event was written.
func (a *account) tell(news tiding, now time.Time) {
	a.spend(now)
	a.failures, a.notBefore = 0, time.Time{}
	if len(a.counts) >= countLimit {
		clear(a.counts)
	}
	a.counts[news]++
	if news.accepted {
		// What was refused since then was not told by this Event.
		a.told = false
		return
	}
	a.told = true
	if opened := a.open[news.fault]; opened != nil {
		opened.told = true
	}
}

// drop gives an Event up that the API server will never take.
func (a *account) drop(news tiding, now time.Time) {
	a.spend(now)
	if news.accepted {
		a.told = false
	} else if opened := a.open[news.fault]; opened != nil {
		opened.told = true
	}
}

// fail puts the next try off.
func (a *account) fail(now time.Time) {
	a.failures++
	a.notBefore = now.Add(retryAfter(a.failures))
}

func (a *account) spend(now time.Time) { a.recent = append(a.recent, now) }
