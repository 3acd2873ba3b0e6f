package ingress

import (
	"slices"
	"sync"
)

// fact is something that the cluster states and that changes, such as which
// Service a path leads to. While it changes the old and the new are right; once
// the change is seen to be live only the new one is.
type fact struct {
	mu sync.Mutex
	// moments are what was right, one after the other.
	moments [][]string
}

func newFact(value string) *fact { return &fact{moments: [][]string{{value}}} }

// now is this moment, for judge.
func (f *fact) now() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.moments) - 1
}

// judge reports whether a response was right at some time since a moment.
func (f *fact) judge(since int, answer string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.moments[since:], func(right []string) bool { return slices.Contains(right, answer) })
}

// right is what is right now.
func (f *fact) right() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.moments[len(f.moments)-1]
}

// changes records that something new is about to be written.
func (f *fact) changes(to string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.moments[len(f.moments)-1]
	f.moments = append(f.moments, append(slices.Clone(last), to))
}

// changed records that the new one is live everywhere.
func (f *fact) changed(to string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moments = append(f.moments, []string{to})
}
