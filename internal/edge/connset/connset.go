// Package connset holds sets of open connections. A member stores its place in the
// set, so that neither adding nor removing it takes a hash: a connection that lives
// for one request is in two sets.
package connset

// Place is where a member is in its set. The zero value is in none. It is guarded by
// what guards the set.
type Place struct{ after int }

// Member is a pointer to what has a Place. It can be in one set at a time.
type Member interface {
	comparable
	Place() *Place
}

// Set has its members in no particular order. The zero value is empty. It is not safe
// for concurrent use.
type Set[M Member] []M

// Add adds a member that is in no set.
func (s *Set[M]) Add(member M) {
	*s = append(*s, member)
	member.Place().after = len(*s)
}

// Has reports whether a member was added and not removed.
func (s *Set[M]) Has(member M) bool { return member.Place().after > 0 }

// Remove removes a member, and reports whether it was one. The last member takes its
// place.
func (s *Set[M]) Remove(member M) bool {
	place := member.Place()
	if place.after == 0 {
		return false
	}
	end := len(*s) - 1
	last := (*s)[end]
	(*s)[place.after-1] = last
	last.Place().after = place.after
	place.after = 0
	var none M
	(*s)[end] = none // the set must not keep it in memory
	*s = (*s)[:end]
	return true
}
