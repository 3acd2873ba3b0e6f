// Package fair shares what is scarce between projects: slots of workers, and the
// order of a work queue.
//
// Of the projects that wait, the one that has least goes first, and among equals
// the one that was served longest ago. So a project with many slow Applications
// has everything while no other waits, and delays others by one job at most.
// Nothing that runs is interrupted.
//
// Within a project the order is first in, first out. Both types are safe for
// concurrent use.
//
// See decision 0039 in docs/decisions.
package fair

// turns has what waits of each project, and how much each has. It is not safe
// for concurrent use.
type turns[T any] struct {
	shares map[string]*share[T]
	// turn numbers what is handed out.
	turn uint64
}

// share is that of one project. It is dropped when the project has nothing and
// does not wait.
type share[T any] struct {
	held    int
	served  uint64 // the turn of the last one
	waiting []T
}

// newTurns returns turns without projects.
func newTurns[T any]() turns[T] { return turns[T]{shares: map[string]*share[T]{}} }

// of is the share of a project.
func (t *turns[T]) of(project string) *share[T] {
	s := t.shares[project]
	if s == nil {
		s = &share[T]{}
		t.shares[project] = s
	}
	return s
}

// push adds to what waits of a project.
func (t *turns[T]) push(project string, one T) {
	s := t.of(project)
	s.waiting = append(s.waiting, one)
}

// hold counts one that is handed out.
func (t *turns[T]) hold(s *share[T]) {
	t.turn++
	s.held++
	s.served = t.turn
}

// pop hands out what is next, of a project that has fewer than most.
func (t *turns[T]) pop(most int) (one T, project string, found bool) {
	var next *share[T]
	for name, s := range t.shares {
		if len(s.waiting) == 0 || s.held >= most {
			continue
		}
		if next == nil || s.held < next.held || s.held == next.held && s.served < next.served {
			next, project = s, name
		}
	}
	if next == nil {
		return one, "", false
	}
	one = next.waiting[0]
	var none T
	next.waiting[0] = none // the array must not keep it alive
	next.waiting = next.waiting[1:]
	t.hold(next)
	return one, project, true
}

// release takes back what was handed out to a project.
func (t *turns[T]) release(project string) {
	s := t.shares[project]
	s.held--
	t.drop(project, s)
}

// drop forgets a project without anything. Its last turn counts only while it
// competes with others.
func (t *turns[T]) drop(project string, s *share[T]) {
	if s.held == 0 && len(s.waiting) == 0 {
		delete(t.shares, project)
	}
}
