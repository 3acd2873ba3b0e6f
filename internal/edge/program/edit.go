package program

import (
	"fmt"
	"regexp"
	"slices"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// ChangeError means that a change was not made for the Program it was applied
// to.
type ChangeError struct {
	Message string
}

// Error implements error.
func (e *ChangeError) Error() string {
	return "the change does not fit the program: " + e.Message + "; compile the new table instead"
}

// edit makes a Program from another one by copy on write: it copies each node
// before its first change, so it can be dropped at any time. Rules that the
// change removes or changes are removed first, and rules that it adds are added
// last: so limits, identities and uses are checked against what stays.
type edit struct {
	next     *Program
	rules    *shardEdit[route.ID, *compiledRule]
	exact    *shardEdit[string, *bucket]
	wildcard *shardEdit[string, *bucket]
	// listeners has the rules of listeners.
	listeners *shardEdit[listenerHost, *listenerBucket]
	owners    *shardEdit[string, *ownedHost]
	backends  *shardEdit[route.BackendID, *usedBackend]
	tcp       *tcpEdit

	// checked is set if the elements were validated before.
	checked     bool
	expressions map[string]*regexp.Regexp
	interned    map[string]string
	problems    []route.Problem
}

// newEdit starts an edit of a Program. The new generation marks the nodes that
// it makes.
func newEdit(p *Program) *edit {
	next := *p
	next.generation++
	return &edit{
		next:        &next,
		rules:       p.rules.edit(),
		exact:       p.exact.edit(),
		wildcard:    p.wildcard.edit(),
		listeners:   p.listeners.edit(),
		owners:      p.owners.edit(),
		backends:    p.backends.edit(),
		tcp:         p.tcp.edit(),
		expressions: make(map[string]*regexp.Regexp),
		interned:    make(map[string]string),
	}
}

// apply applies a change in steps and returns the new Program, or an error with
// all problems. The Program that it started from is not changed in either case.
func (e *edit) apply(change *route.Change) (*Program, error) {
	for _, step := range []func(*route.Change) error{
		e.removeRules, e.removeTCPRoutes, e.changeEntryPoints, e.changeBackends, e.addRules, e.addTCPRoutes,
	} {
		if err := step(change); err != nil {
			return nil, err
		}
	}
	if len(e.problems) > 0 {
		return nil, &route.InvalidError{Problems: e.problems}
	}
	e.next.rules = e.rules.sharded
	e.next.exact = e.exact.sharded
	e.next.wildcard = e.wildcard.sharded
	e.next.refreshWildcardPriority()
	e.next.listeners = e.listeners.sharded
	e.next.owners = e.owners.sharded
	e.next.backends = e.backends.sharded
	e.next.tcp = e.tcp.done()
	return e.next, nil
}

// removeRules removes the rules that the change removes, and those that it
// changes: addRules adds them again.
func (e *edit) removeRules(change *route.Change) error {
	for _, id := range change.Rules.Removed {
		if err := e.removeRule(id); err != nil {
			return err
		}
	}
	for _, rule := range change.Rules.Changed {
		if err := e.removeRule(rule.ID); err != nil {
			return err
		}
	}
	return nil
}

// addRules adds changed rules before new ones, so that a limit is reported for
// a new rule and not for one that was there.
func (e *edit) addRules(change *route.Change) error {
	for _, rule := range slices.Concat(change.Rules.Changed, change.Rules.Added) {
		if err := e.addRule(rule); err != nil {
			return err
		}
	}
	return nil
}

// removeTCPRoutes does the same as removeRules for TCP routes.
func (e *edit) removeTCPRoutes(change *route.Change) error {
	for _, id := range change.TCPRoutes.Removed {
		if err := e.removeTCP(id); err != nil {
			return err
		}
	}
	for _, tcp := range change.TCPRoutes.Changed {
		if err := e.removeTCP(tcp.ID); err != nil {
			return err
		}
	}
	return nil
}

// addTCPRoutes does the same as addRules for TCP routes.
func (e *edit) addTCPRoutes(change *route.Change) error {
	for _, tcp := range slices.Concat(change.TCPRoutes.Changed, change.TCPRoutes.Added) {
		if err := e.addTCP(tcp); err != nil {
			return err
		}
	}
	return nil
}

// addRule validates, compiles and inserts a rule. A rule with problems is left
// out, so that all problems of a change are found at once.
func (e *edit) addRule(source *route.Rule) error {
	if e.rules.get(source.ID) != nil {
		return e.changeError("rule %s is added, but it is there", source.ID)
	}
	if !e.checked {
		if problems := source.Validate(); len(problems) > 0 {
			e.problems = append(e.problems, problems...)
			return nil
		}
	}
	rule, err := e.compileRule(source)
	if err != nil {
		return err
	}
	rule.entryPoints = e.useEntryPoints(source.ID, source.EntryPoints)
	found := e.bucket(source)
	before := found.priority
	found = found.insert(e, rule)
	e.setBucket(source, before, found)
	if large := found.siblings(rule); !e.checked && tooMany(rule, large) {
		e.problem(source.ID, "match", refusal.TooMany, "there are %d other rules like it for this host, which is the limit; remove some", large-1)
	}
	e.rules.set(rule)
	e.countOwner(source.Listener, source.Host, source.HostOwner, 1)
	e.useBackends(source.ID, source.BackendIDs)
	return nil
}

// tooMany reports whether a lookup would have to try more rules one by one than
// the limits allow. They bound the time of every lookup.
func tooMany(rule *compiledRule, large int) bool {
	if rule.pathType == pathRegexp {
		return large > route.MaxExpressionsPerHost
	}
	return large > route.MaxRulesPerPath
}

// removeRule removes a rule with its uses of entry points and backends.
func (e *edit) removeRule(id route.ID) error {
	rule := e.rules.get(id)
	if rule == nil {
		return e.changeError("rule %s is changed or removed, but it is not there", id)
	}
	source := rule.source
	found := e.bucket(source)
	before := found.priority
	e.setBucket(source, before, found.remove(e, rule))
	e.rules.delete(id)
	e.countOwner(source.Listener, source.Host, source.HostOwner, -1)
	e.releaseEntryPoints(source.EntryPoints)
	e.releaseBackends(source.BackendIDs)
	return nil
}

// bucket returns the rules with the host of a rule, an empty bucket if there are
// none yet.
func (e *edit) bucket(rule *route.Rule) *bucket {
	if rule.Listener != (route.ListenerID{}) {
		return e.listenerBucket(rule)
	}
	hosts, name := placeOf(e.exact, e.wildcard, rule.Host)
	found := e.next.none
	if hosts != nil {
		found = hosts.get(name)
	}
	if found == nil {
		found = newBucket(name, e.next.generation)
	}
	return found
}

// setBucket stores the rules with the host of a rule, whose highest priority was
// before; nil removes it.
func (e *edit) setBucket(rule *route.Rule, before int32, b *bucket) {
	if rule.Listener != (route.ListenerID{}) {
		e.setListenerBucket(rule, b)
		return
	}
	hosts, name := placeOf(e.exact, e.wildcard, rule.Host)
	if hosts != e.exact {
		e.next.countWildcards(before, -1)
		if b != nil {
			e.next.countWildcards(b.priority, 1)
		}
	}
	switch {
	case hosts == nil:
		e.next.none = b
	case b == nil:
		hosts.delete(name)
	default:
		hosts.set(b)
	}
}

// placeOf returns the index that a host or server name is in, and its key there. An
// empty one is in no index.
func placeOf[V keyed[string]](exact, wildcard *shardEdit[string, V], host string) (*shardEdit[string, V], string) {
	if host == "" {
		return nil, ""
	}
	if parent, ok := route.WildcardParent(host); ok {
		return wildcard, parent
	}
	return exact, host
}

// changeError returns the error of a change that was made for another Program.
func (e *edit) changeError(format string, args ...any) error {
	return &ChangeError{Message: fmt.Sprintf(format, args...)}
}

// problem adds a problem; apply returns all of them.
func (e *edit) problem(subject route.Identity, field string, reason refusal.Reason, format string, args ...any) {
	e.problems = append(e.problems, route.NewProblem(subject, field, reason, format, args...))
}
