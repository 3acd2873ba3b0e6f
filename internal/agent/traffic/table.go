package traffic

import (
	"fmt"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// mostMessage bounds the message of a commit.
const mostMessage = 500

// joined is the table of some edges, with the order of its routes.
type joined struct {
	table  *runtimev1.TrafficTable
	routes []trafficreport.RouteID
}

// joiner builds a table.
type joiner struct {
	// apps finds the Application of an object, and commit its commit.
	apps   *appIndex
	commit func(*appFacts) *source.Commit

	// out is the table so far, and places the positions of its Applications.
	out    *runtimev1.TrafficTable
	places map[*appFacts]int32
}

// tableKey changes whenever the table may change, so that an equal table is not
// built again.
func tableKey(edges []*edgeView, apps *appIndex, commits int) string {
	var key strings.Builder
	for _, edge := range edges {
		fmt.Fprintf(&key, "%s %s\n", edge.name, edge.tableVersion)
	}
	// Without an index yet, the key must differ from that of the first index.
	number := -1
	if apps != nil {
		number = apps.number
	}
	fmt.Fprintf(&key, "%d %d", number, commits)
	return key.String()
}

// join merges the tables of all edges.
func (j *joiner) join(edges []*edgeView) joined {
	j.out, j.places = &runtimev1.TrafficTable{}, map[*appFacts]int32{}
	made := joined{table: j.out}
	at := map[trafficreport.RouteID]int{}
	var serving []*edgeView
	for _, edge := range edges {
		// Edges that were never reached have no table.
		if edge.table == nil {
			continue
		}
		serving = append(serving, edge)
		backends := map[trafficreport.BackendID]*trafficreport.Backend{}
		for i := range edge.table.Backends {
			backends[edge.table.Backends[i].ID] = &edge.table.Backends[i]
		}
		for i := range edge.table.Routes {
			route := &edge.table.Routes[i]
			if _, known := at[route.ID]; !known {
				at[route.ID] = len(made.routes)
				made.routes = append(made.routes, route.ID)
				j.out.Routes = append(j.out.Routes, j.route(route, backends))
			}
		}
		// Edges serve the same table, so that the maximum is the number that is
		// left out.
		j.out.MoreRoutes = max(j.out.GetMoreRoutes(), int32(edge.table.MoreRoutes))
		j.out.MoreCertificates = max(j.out.GetMoreCertificates(), int32(edge.table.MoreCertificates))
		j.out.MoreRefusals = max(j.out.GetMoreRefusals(), int32(edge.table.MoreRefusals))
	}
	j.missing(serving, at)
	j.rest(serving)
	return made
}

// missing lists for each route the edges that do not serve it, as after a
// failed update.
func (j *joiner) missing(edges []*edgeView, at map[trafficreport.RouteID]int) {
	// With equal versions all edges serve the same. With truncated tables a
	// missing route means nothing.
	same := !slices.ContainsFunc(edges, func(e *edgeView) bool { return e.tableVersion != edges[0].tableVersion })
	if same || j.out.GetMoreRoutes() > 0 {
		return
	}
	for _, edge := range edges {
		served := make(map[int]bool, len(at))
		for i := range edge.table.Routes {
			served[at[edge.table.Routes[i].ID]] = true
		}
		for i, route := range j.out.GetRoutes() {
			if !served[i] {
				route.MissingOn = append(route.MissingOn, edge.name)
			}
		}
	}
}

// route converts a route. A backend without a reported state has zero
// endpoints.
func (j *joiner) route(route *trafficreport.Route, backends map[trafficreport.BackendID]*trafficreport.Backend) *runtimev1.TrafficRoute {
	message := &runtimev1.TrafficRoute{
		Ref: routeRef(route.ID), Host: route.Host, Path: route.Path, PathType: route.PathType, EntryPoints: route.EntryPoints,
		Conditions: route.Conditions, Fallback: route.Fallback, Priority: route.Priority, Policies: route.Policies,
		Status: int32(route.Status), Reason: route.Reason, Message: route.Message, Unmeasured: route.Unmeasured,
	}
	for _, target := range route.Backends {
		backend := &runtimev1.TrafficBackend{
			Namespace: target.ID.Namespace, Service: target.ID.Name, Port: int32(target.ID.Port), Weight: target.Weight,
		}
		if state := backends[target.ID]; state != nil {
			backend.ReadyEndpoints, backend.Endpoints, backend.Broken = int32(state.Ready), int32(state.Total), state.Broken
			backend.Release = state.Release
		}
		message.Backends = append(message.Backends, backend)
	}
	owner, byService := j.owner(route)
	message.Application, message.ApplicationByService = j.application(owner), byService
	return message
}

// owner returns the Application that has the object of a route, or else that of
// its Service.
func (j *joiner) owner(route *trafficreport.Route) (app *appFacts, byService bool) {
	if app := j.apps.find(keyOf(route.ID.Kind, route.ID.Namespace, route.ID.Name)); app != nil {
		return app, false
	}
	// The Service of a route often belongs to the Application even if the
	// Ingress does not.
	for _, target := range route.Backends {
		if app := j.apps.find(keyOf("Service", target.ID.Namespace, target.ID.Name)); app != nil {
			return app, true
		}
	}
	return nil, false
}

// application returns the position of an Application in the table, from 1; 0 is
// none.
func (j *joiner) application(app *appFacts) int32 {
	if app == nil {
		return 0
	}
	if place := j.places[app]; place > 0 {
		return place
	}
	j.out.Applications = append(j.out.Applications, j.message(app))
	j.places[app] = int32(len(j.out.GetApplications()))
	return j.places[app]
}

// message converts an Application, with its commit if that is cached.
func (j *joiner) message(app *appFacts) *runtimev1.TrafficApplication {
	message := &runtimev1.TrafficApplication{
		Ref:  &runtimev1.ApplicationRef{Namespace: app.place.Namespace, Name: app.place.Name},
		Sync: app.sync, Health: app.health, Project: app.project, RepoUrl: app.repoURL, Revision: app.revision, DeployedAt: wire.Timestamp(app.deployedAt),
	}
	if commit := j.commit(app); commit != nil {
		message.CommitAuthor, message.CommitMessage, message.CommitAt = commit.Author, shorten(commit.Message, mostMessage), wire.Timestamp(commit.When)
	}
	return message
}

// rest adds what belongs to no single route: entry points, certificates and
// refusals.
func (j *joiner) rest(edges []*edgeView) {
	points, certificates, refusals := map[trafficreport.EntryPoint]bool{}, map[string]bool{}, map[refusal.Refusal]bool{}
	for _, edge := range edges {
		for _, point := range edge.table.EntryPoints {
			if !points[point] {
				points[point] = true
				j.out.EntryPoints = append(j.out.EntryPoints, &runtimev1.TrafficEntryPoint{
					Name: point.Name, Address: point.Address, Tls: point.TLS, Http3: point.HTTP3,
				})
			}
		}
		for i := range edge.table.Certificates {
			c := &edge.table.Certificates[i]
			// The same Secret may have another certificate on an edge that was
			// not updated yet.
			key := fmt.Sprintf("%q %q %d %q", c.Namespace, c.Name, c.NotAfter.Unix(), c.Names)
			if !certificates[key] {
				certificates[key] = true
				j.out.Certificates = append(j.out.Certificates, j.certificate(c))
			}
		}
		for _, refused := range edge.table.Refusals {
			if !refusals[refused] {
				refusals[refused] = true
				j.out.Refusals = append(j.out.Refusals, j.refusal(&refused))
			}
		}
	}
}

// certificate converts a certificate, with the hosts it covers.
func (j *joiner) certificate(c *trafficreport.Certificate) *runtimev1.TrafficCertificate {
	message := &runtimev1.TrafficCertificate{
		Namespace: c.Namespace, Secret: c.Name, Names: c.Names, Issuer: c.Issuer, NotBefore: wire.Timestamp(c.NotBefore), NotAfter: wire.Timestamp(c.NotAfter),
	}
	for _, route := range j.out.GetRoutes() {
		if slices.ContainsFunc(c.Names, func(name string) bool { return covers(name, route.GetHost()) }) {
			message.Routes++
		}
	}
	return message
}

// covers reports whether a name of a certificate matches a host. A wildcard
// matches one label (RFC 6125).
func covers(name, host string) bool {
	if host == "" {
		return false
	}
	if strings.EqualFold(name, host) {
		return true
	}
	// The wildcard stands for exactly one label.
	parent, wild := strings.CutPrefix(name, "*.")
	_, rest, dotted := strings.Cut(host, ".")
	return wild && dotted && strings.EqualFold(parent, rest)
}

// refusal converts a refusal, with the Application of its object.
func (j *joiner) refusal(refused *refusal.Refusal) *runtimev1.TrafficRefusal {
	return &runtimev1.TrafficRefusal{
		Kind: refused.Kind, Namespace: refused.Namespace, Name: refused.Name, Field: refused.Field, Reason: string(refused.Reason), Message: refused.Message,
		Application: j.application(j.apps.find(keyOf(refused.Kind, refused.Namespace, refused.Name))),
	}
}

// routeRef converts the id of a route.
func routeRef(id trafficreport.RouteID) *runtimev1.RouteRef {
	return &runtimev1.RouteRef{
		Kind: id.Kind, Namespace: id.Namespace, Name: id.Name, Rule: int32(id.Rule), Path: int32(id.Path), Variant: id.Variant,
	}
}

// shorten cuts a text and makes it valid UTF-8.
func shorten(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return strings.ToValidUTF8(text, "?")
}
