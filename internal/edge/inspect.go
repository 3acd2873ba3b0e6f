package edge

import (
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/route"
)

// The Server is the source of the admin API.
var _ admin.Source = (*Server)(nil)

// Table is the table that is served, with the rules of entry points. It must
// not be changed.
func (s *Server) Table() *route.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.Table()
}

// Program is the live program, nil before the first.
func (s *Server) Program() *program.Program { return s.proxy.Program() }

// Upstreams returns the state of all backends.
func (s *Server) Upstreams() []upstream.BackendState { return s.upstreams.Snapshot() }

// Counts returns the requests since the start, by rule, and those without a
// rule.
func (s *Server) Counts() ([]trafficreport.RouteCount, trafficreport.Count) { return s.proxy.Counts() }

// Releases returns what the revisions of Releases served.
func (s *Server) Releases() []trafficreport.ReleaseTraffic { return s.upstreams.Releases() }

// Certificates returns the certificates that are served to clients.
func (s *Server) Certificates() []tlsstore.CertificateInfo {
	return s.certificates.Index().Certificates()
}

// EntryPoints returns the entry points in the order of the options, those for datagrams last.
func (s *Server) EntryPoints() []admin.EntryPoint {
	points := make([]admin.EntryPoint, len(s.points))
	for i, p := range s.points {
		points[i] = admin.EntryPoint{
			Name: p.Name, Address: p.listener.Addr().String(), TLS: p.TLS, HTTP3: p.HTTP3, Limits: p.Limits,
		}
	}
	for i := range s.datagrams {
		p := &s.datagrams[i]
		points = append(points, admin.EntryPoint{Name: p.Name, Address: p.relay.Address().String(), UDP: true})
	}
	return points
}
