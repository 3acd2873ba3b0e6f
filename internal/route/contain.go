package route

import (
	"slices"
	"strings"
)

// Contain returns a table without problems, and the problems that it removed.
// Each is confined to the element that has it, which fails closed:
//
//   - a rule whose match is valid responds with 503 in place of its backends;
//   - a rule that cannot be placed (host, match, entry points, identity) is
//     left out, and so is a TCP route with any problem;
//   - a listener, backend, certificate or authority is left out; rules that use the
//     backend respond with 503;
//   - TLS options are refused: their hosts respond with 503.
//
// A table without problems is returned as it is. The receiver is not changed.
func (t *Table) Contain() (*Table, []Problem) {
	problems := t.Validate()
	if len(problems) == 0 {
		return t, nil
	}
	contained := t.withoutHoles()
	all := problems
	// An element that is left out can leave dangling references behind: an
	// authority those of its backends, and these those of their rules. After that,
	// every element that still has a problem is left out: each round then makes
	// the table smaller, so the loop ends.
	const rounds = 4
	for round := 0; len(problems) > 0; round++ {
		contained = contained.without(problems, round >= rounds)
		problems = contained.Validate()
		all = append(all, problems...)
	}
	return contained, all
}

// withoutHoles copies the lists, without nil elements.
func (t *Table) withoutHoles() *Table {
	return &Table{
		EntryPoints:  slices.Clone(t.EntryPoints),
		Listeners:    compact(t.Listeners),
		Rules:        compact(t.Rules),
		TCPRoutes:    compact(t.TCPRoutes),
		Backends:     compact(t.Backends),
		Certificates: compact(t.Certificates),
		Authorities:  compact(t.Authorities),
		TLSOptions:   compact(t.TLSOptions),
	}
}

// compact copies a list without its nil elements.
func compact[V any](values []*V) []*V {
	return slices.DeleteFunc(slices.Clone(values), func(v *V) bool { return v == nil })
}

// without removes the elements with a problem; t is a copy that it may change.
// Rules stay, as a refusal, if they can and all is not set.
func (t *Table) without(problems []Problem, all bool) *Table {
	bad, displaced := subjectsOf(problems, all)
	if bad[WholeTable{}] {
		t.EntryPoints = containedEntryPoints(t.EntryPoints)
	}
	t.Listeners = slices.DeleteFunc(t.Listeners, func(v *Listener) bool { return bad[v.ID] })
	t.Rules = slices.DeleteFunc(t.Rules, func(v *Rule) bool { return displaced[v.ID] })
	for i, rule := range t.Rules {
		if bad[rule.ID] {
			t.Rules[i] = refused(rule)
		}
	}
	t.TCPRoutes = slices.DeleteFunc(t.TCPRoutes, func(v *TCPRoute) bool { return bad[v.ID] })
	t.Backends = slices.DeleteFunc(t.Backends, func(v *Backend) bool { return bad[v.ID] })
	t.Certificates = slices.DeleteFunc(t.Certificates, func(v *Certificate) bool { return bad[v.ID] })
	t.Authorities = slices.DeleteFunc(t.Authorities, func(v *Authority) bool { return bad[v.ID] })
	t.TLSOptions = closeTLSOptions(t.TLSOptions, bad)
	return t
}

// subjectsOf returns the elements with a problem, and those of them that are left
// out: by a problem in how a rule is matched, or all of them if all is set.
func subjectsOf(problems []Problem, all bool) (bad, displaced map[Identity]bool) {
	bad, displaced = make(map[Identity]bool, len(problems)), make(map[Identity]bool)
	for _, problem := range problems {
		bad[problem.Subject] = true
		if all || !inAction(problem.Field) {
			displaced[problem.Subject] = true
		}
	}
	return bad, displaced
}

// inAction reports whether a field of a rule is about how it serves its requests,
// and not about which ones it matches.
func inAction(field string) bool {
	top, _, _ := strings.Cut(field, ".")
	top, _, _ = strings.Cut(top, "[")
	switch top {
	case "policies", "directives", "rewrite", "backends", "response", "timeouts", "sticky":
		return true
	default:
		return false
	}
}

// refused returns the rule with a 503 in place of everything that it does.
func refused(rule *Rule) *Rule { return rule.Closed("a part of the rule is not valid") }

// Closed returns the rule with a 503 in place of everything that it does. It matches the
// same requests, so that they do not get to another rule.
func (rule *Rule) Closed(message string) *Rule {
	closed := *rule
	closed.Policies = nil
	closed.Directives = nil
	closed.Rewrite = nil
	closed.Backends = nil
	closed.Timeouts = Timeouts{}
	closed.Sticky = nil
	closed.Response = &Response{Status: 503, Reason: ReasonRefused, Message: message}
	return &closed
}

// containedEntryPoints drops invalid and repeated names, and those over the limit.
func containedEntryPoints(names []string) []string {
	var kept []string
	for _, name := range names {
		if validName(name) && !slices.Contains(kept, name) && len(kept) < MaxEntryPoints {
			kept = append(kept, name)
		}
	}
	return kept
}
