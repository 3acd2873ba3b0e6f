package edge

import (
	"errors"
	"maps"
	"slices"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/route"
)

// Feedback is the part of a change that is not served as configured.
type Feedback struct {
	// Problems are those of the change. Each affects only its own element.
	Problems []route.Problem
	// TLSChanged is set if TLS has all current problems with certificates and
	// TLS options, also those of earlier changes.
	TLSChanged bool
	TLS        []tlsstore.Problem
}

// Apply replaces the table that was applied before. The table must not be
// changed afterwards. After an error the previous table stays live. What came
// by Update stays too.
func (s *Server) Apply(table *route.Table) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	defer func() { s.options.Metrics.applied(time.Since(began), err) }()
	// A change does not show whether identities are unique and references
	// resolve; only the whole table does.
	if problems := s.complete(table).Validate(); len(problems) > 0 {
		return &route.InvalidError{Problems: problems}
	}
	own := *table
	own.EntryPoints = nil // the entry points are those of the options
	change := route.Diff(s.applied, &own)
	if s.applied != nil && change.Empty() {
		return nil
	}
	next, err := s.proxy.Program().Apply(&change)
	if err != nil {
		return err
	}
	s.serve(next, &change)
	s.applied = &own
	return nil
}

// Update changes what is served besides the applied table. Its cost follows the
// change. The parts of it that cannot be served fail closed, as in
// [route.Change.Contain], and the rest is live when Update returns. Elements
// may be in the wrong list of the change: only the result counts.
func (s *Server) Update(change *route.Change) Feedback {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	defer func() { s.options.Metrics.applied(time.Since(began), nil) }()
	s.refused = nil
	fit := s.book.Fit(s.withParked(change))
	var feedback Feedback
	if problems := s.book.CheckTLS(fit); len(problems) > 0 {
		feedback.Problems = problems
		fit, _ = fit.Contain(problems)
	}
	next, fit, problems := s.containing(fit)
	feedback.Problems = append(append(feedback.Problems, problems...), s.refused...)
	feedback.TLSChanged = tlsChanged(fit)
	feedback.TLS = s.serve(next, fit)
	feedback.Problems = append(feedback.Problems, s.unopened...)
	return feedback
}

// containing compiles a change, and leaves out the parts that do not compile.
func (s *Server) containing(change *route.Change) (*program.Program, *route.Change, []route.Problem) {
	var all []route.Problem
	for {
		next, err := s.proxy.Program().Apply(change)
		if err == nil {
			return next, change, all
		}
		invalid, ok := errors.AsType[*route.InvalidError](err)
		if !ok {
			// The table and the program change together, so this is an internal
			// error, and the edge keeps serving the previous routes.
			s.options.Log.Error("applying a routing change failed, keeping the previous routes", "error", err)
			return s.proxy.Program(), &route.Change{}, append(all, route.NewProblem(route.WholeTable{}, "", refusal.Invalid, "%s", err))
		}
		all = append(all, invalid.Problems...)
		smaller, out := change.Contain(invalid.Problems)
		for _, rule := range out {
			s.parked[rule.ID] = rule
		}
		change = smaller
	}
}

// withParked adds the parked rules to a change that may have made room for
// them, and forgets those that the change replaces.
func (s *Server) withParked(change *route.Change) *route.Change {
	for _, id := range change.Rules.Removed {
		delete(s.parked, id)
	}
	for _, rule := range slices.Concat(change.Rules.Added, change.Rules.Changed) {
		delete(s.parked, rule.ID)
	}
	if len(s.parked) == 0 || len(change.Rules.Removed)+len(change.Rules.Changed) == 0 {
		return change
	}
	more := *change
	more.Rules.Added = slices.AppendSeq(slices.Clip(change.Rules.Added), maps.Values(s.parked))
	clear(s.parked)
	return &more
}

// serve makes a program live, with the backends and certificates of the change.
// New backends are added before the swap, and removed ones are dropped after
// it.
func (s *Server) serve(next *program.Program, change *route.Change) []tlsstore.Problem {
	s.book.Apply(change)
	arriving := *change
	arriving.Backends.Removed, arriving.Authorities.Removed, arriving.Certificates.Removed = nil, nil, nil
	s.upstreams.Apply(&arriving)
	var problems []tlsstore.Problem
	if tlsChanged(change) {
		problems = s.applyTLS(change)
	}
	if !change.TCPRoutes.Empty() {
		for _, p := range s.points {
			p.setTCP(s.book.TCPRoutes())
		}
	}
	s.proxy.Swap(next)
	s.changeListeners(change)
	// A backend and its CA bundles go together, after the last rule that names
	// it.
	leaving := route.Change{}
	leaving.Backends.Removed, leaving.Authorities.Removed = change.Backends.Removed, change.Authorities.Removed
	leaving.Certificates.Removed = change.Certificates.Removed
	s.upstreams.Apply(&leaving)
	return problems
}

// noteRefused keeps the problem of a rule whose policies cannot be compiled.
func (s *Server) noteRefused(id route.ID, err error) {
	s.refused = append(s.refused, route.NewProblem(id, "policies", refusal.Invalid, "%s", err))
}

// SetZone sets the zone that this replica runs in. It is called before the
// first table.
func (s *Server) SetZone(zone string) { s.upstreams.SetZone(zone) }

// serveOptions serves the redirects of the entry points before the first table.
func (s *Server) serveOptions() error {
	base := s.complete(&route.Table{})
	first, err := s.proxy.Compiler().Compile(base)
	if err != nil {
		return err
	}
	s.book.Apply(&route.Change{
		EntryPoints: base.EntryPoints, NewEntryPoints: true, Rules: route.Delta[route.ID, route.Rule]{Added: base.Rules},
	})
	s.proxy.Swap(first)
	return nil
}

// complete adds the entry points and their redirects to a table.
func (s *Server) complete(table *route.Table) *route.Table {
	complete := *table
	complete.EntryPoints = nil
	for _, p := range s.points {
		complete.EntryPoints = append(complete.EntryPoints, p.Name)
		if p.Redirect != nil {
			complete.Rules = append(slices.Clip(complete.Rules), p.redirectRule())
		}
	}
	for i := range s.datagrams {
		complete.EntryPoints = append(complete.EntryPoints, s.datagrams[i].Name)
	}
	slices.Sort(complete.EntryPoints)
	return &complete
}
