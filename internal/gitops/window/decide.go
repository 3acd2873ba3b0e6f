package window

import (
	"fmt"
	"time"
)

// maxSteps bounds how many openings and closings are examined to find when a
// decision changes.
const maxSteps = 8

// Decision is whether an Application may sync.
type Decision struct {
	// CanSync is for automated syncs, CanManual for those that people start.
	CanSync   bool
	CanManual bool
	// Until is when the decision may become another. Zero means that no change
	// is in sight.
	Until time.Time
	// Why names the blocking window, or the one that allows it. It is empty if
	// no window selects the Application.
	Why string
}

// InTheWay is the beginning of the message of a sync that windows refuse.
const InTheWay = "a sync window is in the way: "

// Decide applies the windows that select an Application.
func Decide(windows []Window, app App, now time.Time) Decision {
	selected := selecting(windows, app)
	decision := judge(selected, now)
	at := now
	for range maxSteps {
		at = nextChange(selected, at)
		if at.IsZero() {
			return decision
		}
		later := judge(selected, at)
		if later.CanSync != decision.CanSync || later.CanManual != decision.CanManual {
			decision.Until = at
			return decision
		}
	}
	// The decision is the same at all of them. It has to be made again then.
	decision.Until = at
	return decision
}

// MayContinue reports whether a sync that started at an instant may go on. One
// that was allowed to start may if nothing blocks it, or if every blocking
// window has syncOverrun. Otherwise the text is the reason.
func MayContinue(windows []Window, app App, began, now time.Time, manual bool) (bool, string) {
	selected := selecting(windows, app)
	allowed := func(decision Decision) bool { return decision.CanSync || manual && decision.CanManual }
	today := judge(selected, now)
	if allowed(today) {
		return true, ""
	}
	if !allowed(judge(selected, began)) {
		return false, today.Why
	}
	for _, window := range inTheWay(selected, now) {
		if window.fault != nil || !window.spec.SyncOverrun {
			return false, fmt.Sprintf("%s, and has no syncOverrun", window.reason(now))
		}
	}
	return true, ""
}

// selecting returns the windows that select an Application.
func selecting(windows []Window, app App) []*Window {
	var selected []*Window
	for i := range windows {
		if windows[i].Selects(app) {
			selected = append(selected, &windows[i])
		}
	}
	return selected
}

// judge is the decision at an instant, without when it ends.
func judge(selected []*Window, at time.Time) Decision {
	obstacles := inTheWay(selected, at)
	if len(obstacles) == 0 {
		return Decision{CanSync: true, CanManual: true, Why: permission(selected, at)}
	}
	decision := Decision{CanManual: true, Why: obstacles[0].reason(at)}
	for _, window := range obstacles {
		if window.fault != nil || !window.spec.ManualSync {
			return Decision{Why: window.reason(at)}
		}
	}
	return decision
}

// inTheWay are the windows because of which there is no sync at an instant: the
// deny windows that are open, and if there are none, the allow windows, if none
// of them is open.
func inTheWay(selected []*Window, at time.Time) []*Window {
	var denies, closed []*Window
	allowed := false
	for _, window := range selected {
		open := window.open(at)
		switch {
		case window.denies() && open:
			denies = append(denies, window)
		case !window.denies() && open:
			allowed = true
		case !window.denies():
			closed = append(closed, window)
		}
	}
	switch {
	case len(denies) > 0:
		return denies
	case allowed:
		return nil
	}
	return closed
}

// permission is the reason of a decision that nothing blocks.
func permission(selected []*Window, at time.Time) string {
	for _, window := range selected {
		if !window.denies() && window.open(at) {
			return fmt.Sprintf("the sync window %s is open", window)
		}
	}
	if len(selected) > 0 {
		return "no deny window is open"
	}
	return ""
}

// reason is why the window blocks.
func (w *Window) reason(at time.Time) string {
	switch {
	case w.fault != nil:
		return fmt.Sprintf("a sync window is malformed and closes what it selects: %v", w.fault)
	case w.denies():
		return fmt.Sprintf("the sync window %s is open until %s", w, w.closes(at).UTC().Format(time.RFC3339))
	}
	start, ok := w.schedule.Next(at, w.zone)
	if !ok {
		return fmt.Sprintf("the sync window %s does not open any more", w)
	}
	return fmt.Sprintf("the sync window %s opens at %s", w, start.UTC().Format(time.RFC3339))
}

// nextChange is the first instant after another at which a window may open or
// close.
func nextChange(selected []*Window, after time.Time) time.Time {
	var first time.Time
	for _, window := range selected {
		at := window.changes(after)
		if !at.IsZero() && at.After(after) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}
