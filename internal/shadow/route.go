package shadow

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Route is how the new edge routes a request.
type Route struct {
	// Rule is the name of the rule, empty without one.
	Rule string
	// Status is that of a response of the edge itself, 0 for a request that it forwards.
	Status   int
	Backends []Backend
}

// Backend is a port of a Service.
type Backend struct {
	Namespace, Name string
	Port            uint16
}

// String is the backend in the words of ingress-nginx.
func (b Backend) String() string {
	return b.Namespace + "-" + b.Name + "-" + strconv.Itoa(int(b.Port))
}

// defaultBackend is the name that ingress-nginx has for the backend of requests without a
// rule, and noService the one of a rule without a Service.
const defaultBackend, noService = "upstream-default-backend", "-"

// Is reports whether the backend is the one that a controller has recorded: ingress-nginx
// as NAMESPACE-SERVICE-PORT, Traefik with @kubernetes behind it. The port is a name where
// the Ingress has a name.
func (b Backend) Is(recorded string) bool {
	recorded, _, _ = strings.Cut(recorded, "@")
	port, found := strings.CutPrefix(recorded, b.Namespace+"-"+b.Name+"-")
	if !found || port == "" {
		return false
	}
	if number, err := strconv.Atoi(port); err == nil {
		return number == int(b.Port)
	}
	// A Service whose name continues, as in shop and shop-api, ends with another number.
	_, err := strconv.Atoi(port[strings.LastIndexByte(port, '-')+1:])
	return err != nil
}

// recordedBackend returns the backend of a log, if it can be compared. The services of
// Traefik's own kinds have names that do not contain those of Services.
func (r *Request) recordedBackend() string {
	if backend := r.Recorded.Backend; backend != noService && !strings.HasSuffix(backend, "@kubernetescrd") && !strings.HasSuffix(backend, "@internal") {
		return backend
	}
	return ""
}

// backendDifference compares the backend of the log with that of the new edge.
func (s *session) backendDifference(request *Request, route Route) []Difference {
	recorded := request.recordedBackend()
	if recorded == "" || recorded == defaultBackend && route.Status == 404 {
		return nil
	}
	for _, backend := range route.Backends {
		if backend.Is(recorded) {
			return nil
		}
	}
	return s.Compare.kept(Difference{Cause{Kind: CauseBackend}, recorded, route.target()})
}

// target describes where a route leads.
func (r Route) target() string {
	if len(r.Backends) == 0 {
		return fmt.Sprintf("%d of the edge itself", r.Status)
	}
	var names []string
	for _, backend := range r.Backends {
		names = append(names, backend.String())
	}
	return strings.Join(names, ", ")
}

// processRoute compares what the log has with how the edge would route the request. Nothing
// is sent.
func (s *session) processRoute(ctx context.Context, request *Request) {
	route, err := s.Router.Route(ctx, request)
	switch {
	case ctx.Err() != nil:
		s.report.skip(SkipStopped)
		return
	case err != nil:
		s.report.skip(SkipRoute)
		return
	}
	var found []Difference
	switch status := request.Recorded.Status; {
	case request.recordedBackend() != "":
		found = s.backendDifference(request, route)
	case status == 0 || route.Status == 0:
		s.report.skip(SkipBackend)
		return
	case status != route.Status:
		change := fmt.Sprintf("%d → %d", status, route.Status)
		found = s.Compare.kept(Difference{Cause{Kind: CauseStatus, Change: change}, strconv.Itoa(status), strconv.Itoa(route.Status)})
	}
	s.report.add(request, request.Scheme, route, outcomes{confirmed: found}, false)
}
