package route

import (
	"cmp"
	"slices"

	"slipway.dev/slipway/api/refusal"
)

// Validate returns everything in the table that cannot be served as it is
// written: in each element, between elements (a duplicate identity, a dangling
// reference) and in the whole (limits). A table without problems compiles. The order of the problems does not depend on that of the table.
func (t *Table) Validate() []Problem {
	problems := checkNil(t)
	if len(problems) > 0 {
		t = t.withoutHoles()
	}
	problems = append(problems, t.checkEntryPoints()...)
	refs := newReferences(t)
	problems = appendChecked(problems, t.Listeners, (*Listener).Validate)
	problems = appendChecked(problems, t.Rules, refs.checkRule)
	problems = appendChecked(problems, t.TCPRoutes, refs.checkTCPRoute)
	problems = appendChecked(problems, t.Backends, refs.checkBackend)
	problems = appendChecked(problems, t.Certificates, (*Certificate).Validate)
	problems = appendChecked(problems, t.Authorities, (*Authority).Validate)
	problems = appendChecked(problems, t.TLSOptions, refs.checkTLSOptions)
	problems = append(problems, t.checkDefaults()...)
	problems = append(problems, t.checkDuplicates()...)
	problems = append(problems, t.checkGroupSizes()...)
	slices.SortStableFunc(problems, compareProblems)
	return problems
}

// appendChecked appends the problems of each element of a list.
func appendChecked[V any](problems []Problem, values []*V, check func(*V) []Problem) []Problem {
	for _, value := range values {
		problems = append(problems, check(value)...)
	}
	return problems
}

// compareProblems orders by subject and field, so that the same table reports the
// same list each time.
func compareProblems(a, b Problem) int {
	return cmp.Or(
		cmp.Compare(slices.Index(kindOrder, a.Kind), slices.Index(kindOrder, b.Kind)),
		cmp.Compare(a.Subject.String(), b.Subject.String()),
		cmp.Compare(a.Field, b.Field),
		cmp.Compare(a.Message, b.Message),
	)
}

// checkEntryPoints validates the names that rules refer to.
func (t *Table) checkEntryPoints() []Problem {
	r := report{subject: WholeTable{}}
	if len(t.EntryPoints) > MaxEntryPoints {
		r.add("entryPoints", refusal.TooMany, "there are %d entry points; at most %d are possible", len(t.EntryPoints), MaxEntryPoints)
	}
	seen := make(map[string]bool, len(t.EntryPoints))
	for i, name := range t.EntryPoints {
		r.enterItem("entryPoints", i)
		switch {
		case !validName(name):
			r.add("", refusal.Invalid, "an entry point's name has letters, digits, dots, dashes and underscores, at most %d", maxNameLength)
		case seen[name]:
			r.add("", refusal.Duplicate, "%s is listed twice; list it once", name)
		}
		seen[name] = true
		r.leave()
	}
	return r.problems
}

// checkDefaults reports defaults of which there can be only one. None of several
// is better than the others, so each of them is a problem.
func (t *Table) checkDefaults() []Problem {
	var certificates, options []Problem
	for _, certificate := range t.Certificates {
		if certificate.Default {
			certificates = append(certificates, NewProblem(certificate.ID, "default", refusal.Duplicate,
				"more than one certificate is the default; choose one"))
		}
	}
	for _, o := range t.TLSOptions {
		if len(o.Hosts) == 0 {
			options = append(options, NewProblem(o.ID, "hosts", refusal.Duplicate,
				"more than one set of options is for every host; give the others hosts"))
		}
	}
	var problems []Problem
	if len(certificates) > 1 {
		problems = certificates
	}
	if len(options) > 1 {
		problems = append(problems, options...)
	}
	return problems
}

// checkNil reports nil elements of the lists, which only code can make.
func checkNil(t *Table) []Problem {
	r := report{subject: WholeTable{}}
	holes := func(field string, found bool) {
		if found {
			r.add(field, refusal.Required, "the list has an element that is nil; leave it out")
		}
	}
	holes("listeners", slices.Contains(t.Listeners, nil))
	holes("rules", slices.Contains(t.Rules, nil))
	holes("tcpRoutes", slices.Contains(t.TCPRoutes, nil))
	holes("backends", slices.Contains(t.Backends, nil))
	holes("certificates", slices.Contains(t.Certificates, nil))
	holes("authorities", slices.Contains(t.Authorities, nil))
	holes("tlsOptions", slices.Contains(t.TLSOptions, nil))
	return r.problems
}

// checkDuplicates reports each identity that several elements have, once.
// Neither element is better than the other, so none of them is served.
func (t *Table) checkDuplicates() []Problem {
	var problems []Problem
	problems = duplicates(problems, t.Listeners, func(v *Listener) ListenerID { return v.ID })
	problems = duplicates(problems, t.Rules, func(v *Rule) ID { return v.ID })
	problems = duplicates(problems, t.TCPRoutes, func(v *TCPRoute) TCPRouteID { return v.ID })
	problems = duplicates(problems, t.Backends, func(v *Backend) BackendID { return v.ID })
	problems = duplicates(problems, t.Certificates, func(v *Certificate) CertificateID { return v.ID })
	problems = duplicates(problems, t.Authorities, func(v *Authority) AuthorityID { return v.ID })
	problems = duplicates(problems, t.TLSOptions, func(v *TLSOptions) TLSOptionsID { return v.ID })
	return problems
}

// comparableIdentity is an Identity that can be the key of a map by its type.
type comparableIdentity interface {
	comparable
	Identity
}

// duplicates reports each identity of a list that comes more than once.
func duplicates[V any, K comparableIdentity](problems []Problem, values []*V, key func(*V) K) []Problem {
	count := make(map[K]int, len(values))
	for _, value := range values {
		id := key(value)
		count[id]++
		if count[id] == 2 {
			problems = append(problems, NewProblem(id, "id", refusal.Duplicate,
				"more than one element has this identity; give each its own"))
		}
	}
	return problems
}
