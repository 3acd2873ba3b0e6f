package program

import (
	"math"

	"slipway.dev/slipway/internal/route"
)

// Compiler makes Programs. The zero Compiler is ready for use.
type Compiler struct {
	// Bind makes the value that Lookup returns together with a rule, such as
	// its filters. It is called once for each rule that is new or changed,
	// after its validation. It must not start anything that has to be stopped:
	// the Program may be dropped. An error fails the compilation.
	Bind func(*route.Rule) (any, error)
	// BindTCP does the same for TCP routes.
	BindTCP func(*route.TCPRoute) (any, error)
}

// Program is a compiled table. It never changes.
type Program struct {
	compiler Compiler
	// generation is higher than that of every Program that this one shares
	// nodes with. A node of the same generation belongs to the edit that makes
	// this Program.
	generation uint64
	// entryPoints gives each entry point its bit; entryPointUses counts the
	// rules and TCP routes that name it.
	entryPoints    map[string]uint8
	entryPointUses [64]int

	rules    sharded[route.ID, *compiledRule]
	exact    sharded[string, *bucket]
	wildcard sharded[string, *bucket]
	none     *bucket
	// maxWildcardPriority is the highest priority of all rules with a wildcard
	// or without a host, math.MinInt32 without any. wildcardsAtMax is how many of
	// their buckets have it.
	maxWildcardPriority int32
	wildcardsAtMax      int
	// listeners has the rules of listeners, by listener and host.
	listeners sharded[listenerHost, *listenerBucket]
	// owners has the namespaces that hosts with rules of listeners belong to.
	owners   sharded[string, *ownedHost]
	tcp      tcpIndex
	backends sharded[route.BackendID, *usedBackend]
}

// countWildcards counts a bucket of a wildcard, or of the rules without a host,
// that came or went.
func (p *Program) countWildcards(priority int32, change int) {
	switch {
	case priority > p.maxWildcardPriority:
		p.maxWildcardPriority, p.wildcardsAtMax = priority, change
	case priority == p.maxWildcardPriority:
		p.wildcardsAtMax += change
	}
}

// refreshWildcardPriority recomputes the highest priority when the last bucket
// that had it is gone. As long as one has it, a change costs no search.
func (p *Program) refreshWildcardPriority() {
	if p.wildcardsAtMax > 0 || p.maxWildcardPriority == math.MinInt32 {
		return
	}
	p.maxWildcardPriority, p.wildcardsAtMax = math.MinInt32, 0
	for i := range p.wildcard.shards {
		for _, b := range p.wildcard.shards[i].values {
			p.countWildcards(b.priority, 1)
		}
	}
	if p.none != nil {
		p.countWildcards(p.none.priority, 1)
	}
}

// usedBackend is a backend with the number of rules and TCP routes that name
// it.
type usedBackend struct {
	backend *route.Backend
	uses    int
}

// key is the key of the backend in its index.
func (u *usedBackend) key() route.BackendID { return u.backend.ID }

// unknownEntryPoint is the bit of an entry point that the table does not have.
// Only rules for all entry points have it.
const unknownEntryPoint = route.MaxEntryPoints

// Compile compiles a table. The Program keeps the values of the table, which
// must not change. The error for a table with problems is a
// *[route.InvalidError].
func (c Compiler) Compile(table *route.Table) (*Program, error) {
	if problems := table.Validate(); len(problems) > 0 {
		return nil, &route.InvalidError{Problems: problems}
	}
	empty := &Program{
		compiler:            c,
		rules:               newSharded[route.ID, *compiledRule](),
		exact:               newSharded[string, *bucket](),
		wildcard:            newSharded[string, *bucket](),
		maxWildcardPriority: math.MinInt32,
		listeners:           newSharded[listenerHost, *listenerBucket](),
		owners:              newSharded[string, *ownedHost](),
		tcp: tcpIndex{
			routes:    newSharded[route.TCPRouteID, *compiledTCP](),
			exact:     newSharded[string, *tcpList](),
			wildcard:  newSharded[string, *tcpList](),
			listeners: newSharded[listenerHost, *listenerTCP](),
		},
		backends: newSharded[route.BackendID, *usedBackend](),
	}
	change := route.Change{EntryPoints: table.EntryPoints, NewEntryPoints: true}
	change.Rules.Added = table.Rules
	change.TCPRoutes.Added = table.TCPRoutes
	change.Backends.Added = table.Backends
	// A compilation is an edit of an empty Program, so that both give the same
	// result. The whole table was validated above.
	e := newEdit(empty)
	e.checked = true
	return e.apply(&change)
}

// Apply returns the Program after a change. The cost follows the change. After
// an error this Program is still valid; a *[ChangeError] means that the change
// was made for another Program, and that the caller has to compile the new
// table.
func (p *Program) Apply(change *route.Change) (*Program, error) {
	return newEdit(p).apply(change)
}

// Backend returns a backend of the table.
func (p *Program) Backend(id route.BackendID) (*route.Backend, bool) {
	used := p.backends.get(id)
	if used == nil {
		return nil, false
	}
	return used.backend, true
}

// Rule returns a rule of the table.
func (p *Program) Rule(id route.ID) (*route.Rule, bool) {
	rule := p.rules.get(id)
	if rule == nil {
		return nil, false
	}
	return rule.source, true
}

// Rules is the number of rules.
func (p *Program) Rules() int { return p.rules.size }

// entryPointBit returns the mask of one entry point. It is compared with the
// masks of rules, of which one for all entry points has every bit.
func (p *Program) entryPointBit(name string) uint64 {
	if bit, ok := p.entryPoints[name]; ok {
		return 1 << bit
	}
	return 1 << unknownEntryPoint
}
