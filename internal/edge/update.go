package edge

import (
	"errors"
	"maps"
	"slices"
	"time"

	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/route"
)

// Feedback is what of a change is not served as it was asked for.
type Feedback struct {
	// Problems are those of the change. Each is confined to what has it.
	Problems []route.Problem
	// TLSChanged says that TLS has all problems with certificates and TLS
	// options there are now, those of earlier changes too.
	TLSChanged bool
	TLS        []tlsstore.Problem
}

// Apply puts a table in place of the one that was applied before. The table
// must not be changed afterwards. After an error the table before it goes on
// serving. What came by Update stays.
func (s *Server) Apply(table *route.Table) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	defer func() { s.options.Metrics.applied(time.Since(began), err) }()
	// A change says nothing about what it was made from: that no identity comes
	// twice, and that every reference leads somewhere, only the whole table shows.
	if problems := s.complete(table).Validate(); len(problems) > 0 {
		return &route.InvalidError{Problems: problems}
	}
	own := *table
	own.EntryPoints = nil // those of the options count
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
// change. Whatever of it cannot be served is confined and closed, as
// [route.Change.Contain] says, and the rest is live when Update returns.
// Elements may be in the wrong list of the change: what counts is where it
// leads.
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
	return feedback
}

// containing compiles a change without what it cannot be compiled with.
func (s *Server) containing(change *route.Change) (*program.Program, *route.Change, []route.Problem) {
	var all []route.Problem
	for {
		next, err := s.proxy.Program().Apply(change)
		if err == nil {
			return next, change, all
		}
		invalid := (*route.InvalidError)(nil)
		if !errors.As(err, &invalid) {
			// The book and the program are changed together, so they fit; what is
			// left is a mistake of the program, and serving on is what counts.
			s.options.Log.Error("a change of the routes could not be made; the routes before it stay", "error", err)
			return s.proxy.Program(), &route.Change{}, append(all, route.Problem{
				Subject: route.WholeTable{}, Fault: route.FaultInvalid, Message: err.Error(),
			})
		}
		all = append(all, invalid.Problems...)
		smaller, out := change.Contain(invalid.Problems)
		for _, rule := range out {
			s.parked[rule.ID] = rule
		}
		change = smaller
	}
}

// withParked adds the rules that had no place, for the case that there is one
// now, and forgets those that the change replaces.
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

// serve puts a program in place, with what the change says besides rules.
// Backends that come are made before the swap, and those that go are dropped
// after it.
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
		table := s.book.Table()
		for _, p := range s.points {
			p.setTCP(table)
		}
	}
	s.proxy.Swap(next)
	// A backend and what vouched for it go together, when no rule names it.
	leaving := route.Change{}
	leaving.Backends.Removed, leaving.Authorities.Removed = change.Backends.Removed, change.Authorities.Removed
	leaving.Certificates.Removed = change.Certificates.Removed
	s.upstreams.Apply(&leaving)
	return problems
}

// noteRefused keeps what becomes of a rule whose policies cannot be compiled.
func (s *Server) noteRefused(id route.ID, err error) {
	s.refused = append(s.refused, route.Problem{Subject: id, Field: "policies", Fault: route.FaultInvalid, Message: err.Error()})
}

// SetZone says where this replica runs, before the first table that cares.
func (s *Server) SetZone(zone string) { s.upstreams.SetZone(zone) }

// serveOptions serves what the options of the entry points say, before there is any
// table.
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

// complete adds to a table what the options of the entry points say.
func (s *Server) complete(table *route.Table) *route.Table {
	complete := *table
	complete.EntryPoints = nil
	for _, p := range s.points {
		complete.EntryPoints = append(complete.EntryPoints, p.Name)
		if p.Redirect != nil {
			complete.Rules = append(slices.Clip(complete.Rules), p.redirectRule())
		}
	}
	slices.Sort(complete.EntryPoints)
	return &complete
}
