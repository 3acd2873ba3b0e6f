package route

import (
	"slices"
	"strings"
)

// Contain gives a table without problems, and the problems that it took out.
// Each is confined to what has it, and closed:
//
//   - a rule whose match is in order answers 503 in place of what it was to do;
//   - a rule that cannot be placed (host, match, entry points, identity) is
//     left out, and so is a TCP route with any problem;
//   - a backend, certificate or authority is left out; rules that use the
//     backend answer 503;
//   - TLS options are refused: their hosts answer 503.
//
// A table without problems is returned as it is. The receiver is not changed.
func (t *Table) Contain() (*Table, []Problem) {
	problems := t.Validate()
	if len(problems) == 0 {
		return t, nil
	}
	contained := t.withoutHoles()
	all := problems
	// What is left out can leave references to nothing behind: an authority its
	// backends, and these their rules. After that, whatever still has a problem
	// is left out: each round then makes the table smaller, and so this ends.
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
		Rules:        compact(t.Rules),
		TCPRoutes:    compact(t.TCPRoutes),
		Backends:     compact(t.Backends),
		Certificates: compact(t.Certificates),
		Authorities:  compact(t.Authorities),
		TLSOptions:   compact(t.TLSOptions),
	}
}

func compact[V any](values []*V) []*V {
	return slices.DeleteFunc(slices.Clone(values), func(v *V) bool { return v == nil })
}

// without removes what has a problem from a table of its own. Rules stay, as a
// refusal, if they can and all is not set.
func (t *Table) without(problems []Problem, all bool) *Table {
	bad := make(map[Identity]bool, len(problems))
	displaced := make(map[Identity]bool)
	for _, problem := range problems {
		bad[problem.Subject] = true
		if all || !inAnswer(problem.Field) {
			displaced[problem.Subject] = true
		}
	}
	if bad[WholeTable{}] {
		t.EntryPoints = containedEntryPoints(t.EntryPoints)
	}
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

// inAnswer reports whether a field of a rule is about what becomes of its
// requests, and not about which ones it takes.
func inAnswer(field string) bool {
	top, _, _ := strings.Cut(field, ".")
	top, _, _ = strings.Cut(top, "[")
	switch top {
	case "policies", "backends", "response", "timeouts", "sticky":
		return true
	default:
		return false
	}
}

// refused is the rule with nothing but a 503.
func refused(rule *Rule) *Rule {
	closed := *rule
	closed.Policies = nil
	closed.Backends = nil
	closed.Timeouts = Timeouts{}
	closed.Sticky = nil
	closed.Response = &Response{
		Status:  503,
		Reason:  ReasonRefused,
		Message: "a part of the rule is not valid",
	}
	return &closed
}

func containedEntryPoints(names []string) []string {
	var kept []string
	for _, name := range names {
		if validName(name) && !slices.Contains(kept, name) && len(kept) < MaxEntryPoints {
			kept = append(kept, name)
		}
	}
	return kept
}
