package division

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
)

const (
	// divisionLabel is on the Leases of a division, with its name.
	divisionLabel = "slipway.dev/division"
	// tableAnnotation has the generations, on the Lease of the table.
	tableAnnotation = "slipway.dev/division-generations"
	// acknowledgedAnnotation has the generation that a member has acknowledged, on
	// its own Lease.
	acknowledgedAnnotation = "slipway.dev/division-acknowledged"

	// maxGenerations bounds the generations in the table. One is dropped when all
	// members have acknowledged a later one, so that a member that never does would
	// let them grow.
	maxGenerations = 64
	// maxTableBytes bounds the text of a table that is read.
	maxTableBytes = 256 << 10
)

// generation is a set of members. Numbers are never used twice.
type generation struct {
	Number  int64    `json:"generation"`
	Members []string `json:"members"`
}

// snapshot is what the Leases of a division show at one version of the cluster:
// everything that was written before is in it, and nothing after. The rules below
// depend on that.
type snapshot struct {
	// generations are those of the table, in order; empty before the first.
	generations []generation
	// acknowledged has the members that have a Lease, with the last generation that
	// each has acknowledged; 0 for none.
	acknowledged map[string]int64

	// leases are those of members by name, and table that of the table; nil if there
	// is none.
	leases map[string]*coordinationv1.Lease
	table  *coordinationv1.Lease
}

// read makes a snapshot of Leases.
func read(tableName string, leases []*coordinationv1.Lease) (*snapshot, error) {
	s := &snapshot{acknowledged: map[string]int64{}, leases: map[string]*coordinationv1.Lease{}}
	for _, lease := range leases {
		if lease.Name == tableName {
			s.table = lease
			continue
		}
		number, _ := strconv.ParseInt(lease.Annotations[acknowledgedAnnotation], 10, 64)
		s.acknowledged[lease.Name], s.leases[lease.Name] = max(number, 0), lease
	}
	if s.table == nil {
		return s, nil
	}
	var err error
	s.generations, err = parseTable(s.table.Annotations[tableAnnotation])
	return s, err
}

// parseTable reads generations. They must be in order, because the rules count on
// it.
func parseTable(text string) ([]generation, error) {
	var all []generation
	if len(text) > maxTableBytes {
		return nil, fmt.Errorf("the table has more than %d bytes", maxTableBytes)
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, errors.New("the table is not a list of generations")
	}
	for i, one := range all {
		if one.Number < 1 || i > 0 && one.Number != all[i-1].Number+1 {
			return nil, errors.New("the generations of the table are not in order")
		}
	}
	return all, nil
}

// latest is the number of the last generation; 0 if there is none.
func (s *snapshot) latest() int64 {
	if len(s.generations) == 0 {
		return 0
	}
	return s.generations[len(s.generations)-1].Number
}

// first is the number of the first generation that the table still has.
func (s *snapshot) first() int64 {
	if len(s.generations) == 0 {
		return 0
	}
	return s.generations[0].Number
}

// members returns those of a generation; nil if the table does not have it.
func (s *snapshot) members(number int64) []string {
	at := number - s.first()
	if at < 0 || at >= int64(len(s.generations)) {
		return nil
	}
	return s.generations[at].Members
}

// allows reports whether a member may work on a key: it owns the key in the latest
// generation, and no other member can have it. Another one can have it if it owned the
// key in the generation that it has acknowledged, or in one that it may have seen since.
func (s *snapshot) allows(self, key string) bool {
	latest := s.latest()
	if ownerOf(s.members(latest), key) != self {
		return false
	}
	for other, from := range s.acknowledged {
		switch {
		case other == self:
			continue
		case from > latest || from != 0 && from < s.first():
			return false // the table was lost: the generation of that member is not known
		}
		for number := max(from, s.first()); number < latest; number++ {
			if ownerOf(s.members(number), key) == other {
				return false
			}
		}
	}
	return true
}

// next returns the table that follows: with a generation of all members that have a
// Lease. It returns false if the latest one has these members, or if there are too
// many generations.
func (s *snapshot) next() ([]generation, bool) {
	live := slices.Sorted(maps.Keys(s.acknowledged))
	latest := s.latest()
	if len(live) == 0 || len(s.generations) > 0 && slices.Equal(live, s.members(latest)) {
		return nil, false
	}
	// Members may have acknowledged generations of a table that was lost.
	number := latest
	for _, acknowledged := range s.acknowledged {
		number = max(number, acknowledged)
	}
	made := generation{Number: number + 1, Members: live}
	if number != latest {
		return []generation{made}, true
	}
	kept := slices.DeleteFunc(slices.Clone(s.generations), func(one generation) bool { return one.Number < s.needed() })
	if len(kept) >= maxGenerations {
		return nil, false
	}
	return append(kept, made), true
}

// needed is the first generation by which a member may still own something.
func (s *snapshot) needed() int64 {
	needed := s.latest() + 1
	for member, acknowledged := range s.acknowledged {
		from := acknowledged
		if from == 0 {
			// It may have acknowledged any that has it.
			at := slices.IndexFunc(s.generations, func(one generation) bool { return slices.Contains(one.Members, member) })
			if at < 0 {
				continue
			}
			from = s.generations[at].Number
		}
		needed = min(needed, from)
	}
	return needed
}

// sameDivision reports whether two snapshots allow the same: renewals do not change
// that.
func (s *snapshot) sameDivision(other *snapshot) bool {
	return other != nil && s.latest() == other.latest() && s.first() == other.first() && maps.Equal(s.acknowledged, other.acknowledged)
}

// encodeTable is the text of a table.
func encodeTable(generations []generation) string {
	text, _ := json.Marshal(generations) // numbers and names can be encoded
	return string(text)
}

// rank is the place of a member in the order of those with a Lease.
func (s *snapshot) rank(self string) int {
	return slices.Index(slices.Sorted(maps.Keys(s.acknowledged)), self)
}

// holders names the replicas of the latest generation, for logs.
func (s *snapshot) holders() []string {
	var names []string
	for _, member := range s.members(s.latest()) {
		name := member
		if lease := s.leases[member]; lease != nil {
			name = holderOf(lease)
		}
		names = append(names, name)
	}
	return names
}

// holderOf is the identity of the replica that holds a Lease.
func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return lease.Name
	}
	return *lease.Spec.HolderIdentity
}
