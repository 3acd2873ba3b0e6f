package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/route"
)

// Counter is a Source that counts the requests of its rules.
type Counter interface {
	// Counts are those since the start, by rule, and of no rule.
	Counts() ([]trafficreport.RouteCount, trafficreport.Count)
}

// ReleaseCounter is a Source that counts the requests of Releases.
type ReleaseCounter interface {
	// Releases are those that run, and those that ended a short while ago.
	Releases() []trafficreport.ReleaseTraffic
}

// getReleases returns what the revisions of Releases served.
func (h *Handler) getReleases(source Source, _ *query) (any, error) {
	report := &trafficreport.ReleaseReport{Started: h.began, At: time.Now(), Releases: releasesOf(source)}
	return report, nil
}

// releasesOf returns what the revisions of Releases served, within the bound of a report.
func releasesOf(source Source) []trafficreport.ReleaseTraffic {
	found := []trafficreport.ReleaseTraffic{}
	if counter, counts := source.(ReleaseCounter); counts {
		found = append(found, counter.Releases()...)
	}
	return found[:min(len(found), trafficreport.MaxReleases)]
}

// running returns the Releases that run, with their current revisions.
func running(releases []trafficreport.ReleaseTraffic) []trafficreport.ReleaseTraffic {
	releases = slices.DeleteFunc(releases, func(release trafficreport.ReleaseTraffic) bool { return release.Ended })
	for i := range releases {
		releases[i].Revisions = slices.DeleteFunc(releases[i].Revisions, func(revision trafficreport.RevisionTraffic) bool { return revision.Ended })
	}
	return releases
}

// SetRefusals replaces the current refusals of the provider of routes.
func (h *Handler) SetRefusals(refusals []refusal.Refusal) { h.refusals.Store(&refusals) }

// Remote is the part of the API for the runtime's agent: the traffic report, the counts
// of Releases, and explain. It has neither profiles nor the whole table.
func (h *Handler) Remote() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{trafficreport.ReportPath, trafficreport.ReleasesPath, trafficreport.ExplainPath} {
		mux.Handle("GET "+path, h)
	}
	return mux
}

// getTraffic returns the traffic report. The table is omitted for a client that
// already has this version of it.
func (h *Handler) getTraffic(source Source, q *query) (any, error) {
	report := &trafficreport.Report{
		Version: h.build.Version, Started: h.began, At: time.Now(), Ready: source.Table() != nil, Counts: []trafficreport.RouteCount{},
	}
	var routed []trafficreport.RouteCount
	if counter, counts := source.(Counter); counts {
		routed, report.Unrouted = counter.Counts()
	}
	report.Releases = running(releasesOf(source))
	table := h.trafficTable(source, routed)
	// The version is a hash of the content, so that an agent that restarts, or talks to
	// another replica, still has the right table.
	text, err := json.Marshal(table)
	if err != nil {
		return nil, fmt.Errorf("write the table: %w", err)
	}
	sum := fnv.New64a()
	_, _ = sum.Write(text) // a hash never fails
	report.TableVersion = fmt.Sprintf("%016x", sum.Sum64())
	if q.get(trafficreport.HaveParam) != report.TableVersion {
		report.Table = table
	}
	// Counts of routes that are not listed are summed up, so that totals stay right.
	listed := make(map[trafficreport.RouteID]bool, len(table.Routes))
	for i := range table.Routes {
		listed[table.Routes[i].ID] = true
	}
	// Rest has the counts of routes beyond the limit, and of removed ones.
	for i := range routed {
		if listed[routed[i].ID] {
			report.Counts = append(report.Counts, routed[i])
		} else {
			report.Rest.Add(&routed[i].Count)
		}
	}
	return report, nil
}

// trafficTable summarises the live table. Its order is stable, so that the same table
// has the same version.
func (h *Handler) trafficTable(source Source, routed []trafficreport.RouteCount) *trafficreport.Table {
	table := &trafficreport.Table{
		EntryPoints: []trafficreport.EntryPoint{}, Routes: []trafficreport.Route{}, Backends: []trafficreport.Backend{},
		Certificates: []trafficreport.Certificate{}, Refusals: []refusal.Refusal{},
	}
	for _, point := range source.EntryPoints() {
		table.EntryPoints = append(table.EntryPoints, trafficreport.EntryPoint{
			Name: point.Name, Address: point.Address, TLS: point.TLS, HTTP3: point.HTTP3,
		})
	}
	// Too many routes would make a report that the platform refuses; the rest is counted
	// in MoreRoutes.
	if served := source.Table(); served != nil {
		rules := busiest(served.Rules, routed)
		table.MoreRoutes = len(served.Rules) - len(rules)
		for _, rule := range inOrder(rules) {
			table.Routes = append(table.Routes, trafficRoute(rule))
		}
	}
	table.Backends = trafficBackends(source.Upstreams(), table.Routes)
	// The list is bounded for the platform, and the number of the others is reported.
	all := source.Certificates()
	for _, c := range all[:min(len(all), trafficreport.MaxCertificates)] {
		table.Certificates = append(table.Certificates, trafficreport.Certificate{
			Namespace: c.ID.Namespace, Name: c.ID.Name, Names: c.Names, Issuer: c.Issuer, NotBefore: c.NotBefore, NotAfter: c.NotAfter,
		})
	}
	table.MoreCertificates = len(all) - len(table.Certificates)
	if refusals := h.refusals.Load(); refusals != nil {
		table.Refusals = append(table.Refusals, (*refusals)[:min(len(*refusals), trafficreport.MaxRefusals)]...)
		table.MoreRefusals = len(*refusals) - len(table.Refusals)
	}
	return table
}

// busiest returns all rules, or those with the most requests if they are too many for
// one report.
func busiest(rules []*route.Rule, routed []trafficreport.RouteCount) []*route.Rule {
	if len(rules) <= trafficreport.MaxRoutes {
		return rules
	}
	requests := make(map[trafficreport.RouteID]uint64, len(routed))
	for i := range routed {
		requests[routed[i].ID] = routed[i].Requests()
	}
	// The identity breaks ties, so that the selection is stable.
	sorted := slices.Clone(rules)
	slices.SortFunc(sorted, func(a, b *route.Rule) int {
		return cmp.Or(cmp.Compare(requests[trafficreport.RouteID(b.ID)], requests[trafficreport.RouteID(a.ID)]), a.ID.Compare(b.ID))
	})
	return sorted[:trafficreport.MaxRoutes]
}

// trafficRoute converts a rule, redacted.
func trafficRoute(rule *route.Rule) trafficreport.Route {
	info := ruleInfo(rule)
	shown := trafficreport.Route{
		ID: trafficreport.RouteID(rule.ID), EntryPoints: info.EntryPoints, Host: info.Host,
		Path: info.Match.Path.Value, PathType: string(info.Match.Path.Type), Conditions: conditionTexts(&info.Match),
		Fallback: info.Fallback, Priority: info.Priority, Policies: info.Policies, Unmeasured: rule.Unrecorded.Metrics,
	}
	if info.Listener != (route.ListenerID{}) {
		shown.EntryPoints = []string{info.Listener.String()}
	}
	for _, backend := range info.Backends {
		shown.Backends = append(shown.Backends, trafficreport.Target{ID: trafficreport.BackendID(backend.ID), Weight: backend.Weight})
	}
	// A rule that responds itself has no backends.
	if r := info.Response; r != nil {
		shown.Status, shown.Reason, shown.Message = r.Status, string(r.Reason), r.Message
	}
	return shown
}

// conditionTexts are the conditions of a rule besides host and path, for people.
// Credentials in them have been redacted.
func conditionTexts(match *route.Match) []string {
	var texts []string
	if match.Scheme != "" {
		texts = append(texts, "scheme "+string(match.Scheme))
	}
	if len(match.Methods) > 0 {
		texts = append(texts, "method "+strings.Join(match.Methods, ", "))
	}
	for kind, conditions := range map[string][]route.ValueMatch{"header ": match.Headers, "parameter ": match.Query} {
		for i := range conditions {
			texts = append(texts, kind+valueText(&conditions[i]))
		}
	}
	for i := range match.Further {
		texts = append(texts, furtherText(&match.Further[i]))
	}
	// The conditions come from maps.
	slices.Sort(texts)
	return texts
}

// valueText describes a condition on a header or a parameter.
func valueText(condition *route.ValueMatch) string {
	switch condition.Type {
	case route.ValuePresent:
		return condition.Name
	case route.ValueRegexp:
		return condition.Name + " ~ " + condition.Value
	default:
		return condition.Name + " = " + condition.Value
	}
}

// furtherText describes a further condition.
func furtherText(condition *route.Condition) string {
	text := ""
	switch {
	case condition.Host != "":
		text = "host " + condition.Host
	case condition.HostRegexp != "":
		text = "host ~ " + condition.HostRegexp
	case condition.Path != nil:
		text = "path " + string(condition.Path.Type) + " " + condition.Path.Value
	case condition.Method != "":
		text = "method " + condition.Method
	case condition.Header != nil:
		text = "header " + valueText(condition.Header)
	case condition.Query != nil:
		text = "parameter " + valueText(condition.Query)
	default:
		text = fmt.Sprintf("client in %v", condition.Clients)
	}
	if condition.Not {
		return "not " + text
	}
	return text
}

// trafficBackends returns the backends that the routes name.
func trafficBackends(states []upstream.BackendState, routes []trafficreport.Route) []trafficreport.Backend {
	named := map[trafficreport.BackendID]bool{}
	for i := range routes {
		for _, target := range routes[i].Backends {
			named[target.ID] = true
		}
	}
	backends := []trafficreport.Backend{}
	for i := range states {
		state := &states[i]
		id := trafficreport.BackendID(state.ID)
		if !named[id] {
			continue
		}
		// Draining endpoints serve existing sessions only, so they are not ready.
		backend := trafficreport.Backend{ID: id, Total: len(state.Endpoints), Broken: state.Broken, Release: state.Release}
		for j := range state.Endpoints {
			endpoint := &state.Endpoints[j]
			if endpoint.Health == upstream.HealthReady && endpoint.State != route.EndpointDraining {
				backend.Ready++
			}
		}
		backends = append(backends, backend)
	}
	return backends
}
