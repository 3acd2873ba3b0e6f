package window

import (
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // images without a zone database decide like the others

	"slipway.dev/slipway/internal/gitops/glob"
)

// Kind is what an open window means.
type Kind string

// The kinds of windows.
const (
	Allow Kind = "allow"
	Deny  Kind = "deny"
)

// Spec is a window as an AppProject writes it, with Argo CD's names.
type Spec struct {
	Kind     Kind
	Schedule string
	Duration string
	// TimeZone is a name of the IANA database. Empty means UTC.
	TimeZone string
	// Applications, Namespaces and Clusters are patterns. They select by the
	// Application's name, and by the namespace and the name or address of the
	// cluster that it deploys to. One of the lists is enough, or with
	// AndOperator all that are not empty. Without any the window selects nothing.
	Applications []string
	Namespaces   []string
	Clusters     []string
	AndOperator  bool
	// ManualSync lets people sync although the window is in the way.
	ManualSync bool
	// SyncOverrun lets what has begun end although the window is in the way.
	SyncOverrun bool
}

// App is what windows select by.
type App struct {
	Name      string
	Namespace string // that it deploys to
	Cluster   string // its name, may be empty
	Server    string // its address, may be empty
}

// Window is a compiled Spec.
type Window struct {
	spec     Spec
	schedule Schedule
	duration time.Duration
	zone     *time.Location
	// fault is why the window cannot be followed. It is open then.
	fault error

	applications, namespaces, clusters []glob.Pattern
}

// Compile reads windows. The errors are those of malformed ones, which are in
// the result nevertheless and keep closed what they select.
func Compile(specs []Spec) ([]Window, error) {
	windows := make([]Window, len(specs))
	var faults []error
	for i, spec := range specs {
		windows[i] = compileOne(spec)
		if fault := windows[i].fault; fault != nil {
			faults = append(faults, fmt.Errorf("syncWindows[%d]: %w", i, fault))
		}
	}
	return windows, errors.Join(faults...)
}

// compileOne compiles a window. It collects all faults, so that they are
// reported together.
func compileOne(spec Spec) Window {
	window := Window{spec: spec, zone: time.UTC}
	var faults []error
	note := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	if spec.Kind != Allow && spec.Kind != Deny {
		note(fmt.Errorf("kind %.40q is not allow or deny", spec.Kind))
	}
	var err error
	window.schedule, err = ParseSchedule(spec.Schedule)
	note(err)
	window.duration, err = time.ParseDuration(spec.Duration)
	if err != nil || window.duration <= 0 {
		note(fmt.Errorf("duration %.40q is not a time such as 1h30m", spec.Duration))
	}
	if spec.TimeZone != "" {
		zone, err := loadZone(spec.TimeZone)
		note(err)
		if err == nil {
			window.zone = zone
		}
	}
	for _, list := range []struct {
		texts []string
		into  *[]glob.Pattern
	}{{spec.Applications, &window.applications}, {spec.Namespaces, &window.namespaces}, {spec.Clusters, &window.clusters}} {
		for _, text := range list.texts {
			pattern, err := glob.Compile(text)
			if err != nil {
				// What it was meant to select is not known, so it selects everything.
				note(err)
				pattern, _ = glob.Compile("*")
			}
			*list.into = append(*list.into, pattern)
		}
	}
	window.fault = errors.Join(faults...)
	return window
}

// loadZone does not take Local: every replica has to mean the same.
func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New("timeZone Local is not the same everywhere; use a name such as Europe/Berlin")
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("timeZone %.80q is not known", name)
	}
	return zone, nil
}

// Selects reports whether the window applies to an Application: one list that
// matches is enough, or with AndOperator all lists that are not empty have to
// match.
func (w *Window) Selects(app App) bool {
	matched, lists := 0, 0
	count := func(patterns []glob.Pattern, texts ...string) {
		if len(patterns) == 0 {
			return
		}
		lists++
		if anyMatch(patterns, texts) {
			matched++
		}
	}
	count(w.applications, app.Name)
	count(w.namespaces, app.Namespace)
	count(w.clusters, app.Cluster, app.Server)
	if w.spec.AndOperator {
		return lists > 0 && matched == lists
	}
	return matched > 0
}

// anyMatch reports whether a pattern matches one of the texts.
func anyMatch(patterns []glob.Pattern, texts []string) bool {
	for i, text := range texts {
		if text == "" && i+1 < len(texts) {
			continue // a cluster without a name has an address
		}
		for _, pattern := range patterns {
			if pattern.Match(text) {
				return true
			}
		}
	}
	return false
}

// open reports whether the window is open at an instant: whether it has a start
// in the last duration. A malformed one is always open, and denies.
func (w *Window) open(at time.Time) bool {
	if w.fault != nil {
		return true
	}
	start, ok := w.schedule.Next(at.Add(-w.duration), w.zone)
	return ok && !start.After(at)
}

// closes is when the opening that an instant is in ends, if no other follows.
func (w *Window) closes(at time.Time) time.Time {
	start, _ := w.schedule.Next(at.Add(-w.duration), w.zone)
	// The last start that is not after the instant decides. There may be one a
	// minute for a year, so it is searched by halves.
	for low, high := start, at; high.Sub(low) > time.Minute; {
		middle := low.Add(high.Sub(low) / 2)
		later, ok := w.schedule.Next(middle, w.zone)
		if ok && !later.After(at) {
			start, low = later, later
		} else {
			high = middle
		}
	}
	return start.Add(w.duration)
}

// changes is the next instant at which the window may open or close, zero if
// there is none.
func (w *Window) changes(after time.Time) time.Time {
	switch {
	case w.fault != nil:
		return time.Time{}
	case w.open(after):
		return w.closes(after)
	}
	start, ok := w.schedule.Next(after, w.zone)
	if !ok {
		return time.Time{}
	}
	return start
}

// denies reports whether an open window forbids.
func (w *Window) denies() bool { return w.spec.Kind == Deny || w.fault != nil }

// String is the window for people: deny 0 22 * * * for 1h (Europe/Berlin).
func (w *Window) String() string {
	text := fmt.Sprintf("%s %s for %s", w.spec.Kind, w.spec.Schedule, w.spec.Duration)
	if w.spec.TimeZone != "" {
		text += " (" + w.spec.TimeZone + ")"
	}
	return text
}
