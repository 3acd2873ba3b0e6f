package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/test/bench/ground"
)

// report holds all results of a run. It is the JSON file as well.
type report struct {
	Began   time.Time  `json:"began"`
	Machine string     `json:"machine"`
	Setting string     `json:"setting"`
	Sizes   []*figures `json:"sizes"`
	// Only are the optional phases that were selected; empty means all.
	Only []string `json:"only,omitempty"`
	// Gateway is set if HTTPRoutes were measured, for which other goals apply.
	Gateway bool `json:"gateway,omitempty"`
}

// figures are the results for one number of Ingresses. Phases that did not run
// are zero.
type figures struct {
	Ingresses int `json:"ingresses"`

	Ready   float64 `json:"readySeconds"`
	Cold    float64 `json:"coldSeconds"`
	ColdCPU float64 `json:"coldCPUSeconds"`

	// Empty is the memory of an edge without routes; it is measured with -gateway.
	Empty    float64 `json:"emptyMB,omitempty"`
	Settled  float64 `json:"settledMB"`
	Peak     float64 `json:"peakMB"`
	InUse    float64 `json:"inUseMB"`
	Loaded   float64 `json:"loadedMB"`
	PeakEver float64 `json:"peakEverMB"`
	Idle     float64 `json:"idleCPUShare"`

	Create   delayFigures `json:"create"`
	Endpoint delayFigures `json:"endpoint"`

	CreateCPU   float64 `json:"createCPUMillis"`
	EndpointCPU float64 `json:"endpointCPUMillis"`

	Request requestFigures `json:"request"`

	// Beside compares Ingresses with HTTPRoutes; nil without -gateway.
	Beside *besideFigures `json:"beside,omitempty"`

	// Listeners has the results with many Gateways; nil without -gateway.
	Listeners *listenerFigures `json:"listeners,omitempty"`

	// Peer has the results of the same loads on another proxy; nil without
	// -peer.
	Peer *peerFigures `json:"peer,omitempty"`
}

// requestFigures are the CPU time per request of each load in microseconds, and
// the ratios between loads.
type requestFigures struct {
	One         float64 `json:"oneHostOneEndpointMicros"`
	Wide        float64 `json:"oneHostAllEndpointsMicros"`
	WideTimes   float64 `json:"oneHostAllEndpointsTimes"`
	All         float64 `json:"allHostsAllEndpointsMicros"`
	AllTimes    float64 `json:"allHostsAllEndpointsTimes"`
	RoutesTimes float64 `json:"allHostsToOneHostTimes"`

	// Any and Shared are for as many names with one endpoint: matched by a
	// single wildcard route, and by a route for each name.
	Any         float64 `json:"allNamesOneRouteMicros"`
	Shared      float64 `json:"allNamesOwnRoutesMicros"`
	SharedTimes float64 `json:"allNamesOwnRoutesTimes"`
	// Alone is for a single name with that endpoint.
	Alone            float64 `json:"oneNameMicros"`
	SharedAloneTimes float64 `json:"allNamesOwnRoutesToOneNameTimes"`
}

// listenerFigures are the delays until listeners were open or closed, with the number of
// Gateways and of the requests that others got meanwhile, all of which succeeded.
type listenerFigures struct {
	Gateways int          `json:"gateways"`
	Added    delayFigures `json:"added"`
	Removed  delayFigures `json:"removed"`
	Requests int64        `json:"requests"`
	Resident float64      `json:"residentMB"`
}

// above returns the settled memory beyond that of an edge without routes.
func (f *figures) above() float64 { return f.Settled - f.Empty }

// listeners returns the figures of listeners, zero ones if there are none.
func (f *figures) listeners() *listenerFigures { return cmp.Or(f.Listeners, &listenerFigures{}) }

// beside returns the figures of Ingresses beside HTTPRoutes, zero ones if there are none.
func (f *figures) beside() *besideFigures { return cmp.Or(f.Beside, &besideFigures{}) }

// peerFigures are the results of another proxy.
type peerFigures struct {
	Name string `json:"name"`
	requestFigures
}

// delayFigures are the delays until changes were live, from the call and from
// the watch event, and the time of the call itself.
type delayFigures struct {
	FromCall  ground.Spread `json:"fromCall"`
	FromSight ground.Spread `json:"fromEvent"`
	Call      ground.Spread `json:"call"`
}

// text returns the figures for a line of progress.
func (f delayFigures) text() string {
	return fmt.Sprintf("%s after the call, %s after the event; the call itself %s", f.FromCall.Text(1), f.FromSight.Text(1), f.Call.Text(1))
}

// goal is an upper limit for one figure at one number of Ingresses.
type goal struct {
	phase     string // that measures it
	ingresses int
	name      string
	limit     float64
	unit      string
	figure    func(*figures) float64
}

// requestRatio limits the cost of a request with all routes relative to one
// route. The two should be equal; the rest is the noise of a machine. It
// applies to loads with as many endpoints, with one endpoint, and with one
// endpoint and as many names. The ratio to one host with one endpoint is
// reported without a goal: that load has few connections where the others have
// thousands, whose cost is the kernel's; the peer shows how large it is.
const requestRatio = 1.1

// houseGoals returns the goals of the project. Those whose size or phase a run
// leaves out are not evaluated.
func houseGoals() []goal {
	return []goal{
		{phaseCreate, 5000, "new Ingress live, p99", 100, "ms", func(f *figures) float64 { return f.Create.FromCall.P99 }},
		{phaseEndpoint, 5000, "endpoint change live, p99", 50, "ms", func(f *figures) float64 { return f.Endpoint.FromCall.P99 }},
		{phaseWork, 5000, "CPU per new Ingress", 5, "ms", func(f *figures) float64 { return f.CreateCPU }},
		{phaseWork, 5000, "CPU per endpoint change", 5, "ms", func(f *figures) float64 { return f.EndpointCPU }},
		{phaseLoad, 5000, "CPU per request, all routes to one, with all endpoints", requestRatio, "times", func(f *figures) float64 { return f.Request.RoutesTimes }},
		{phaseShared, 5000, "CPU per request, all routes to one, with one endpoint", requestRatio, "times", func(f *figures) float64 { return f.Request.SharedAloneTimes }},
		{phaseShared, 5000, "CPU per request, all routes to one, with all names", requestRatio, "times", func(f *figures) float64 { return f.Request.SharedTimes }},
		{phaseIdle, 5000, "memory, settled", 150, "MB", func(f *figures) float64 { return f.Settled }},
		{phaseLoad, 5000, "memory, all routes in use", 150, "MB", func(f *figures) float64 { return f.InUse }},
		{phaseCold, 10_000, "cold start", 5, "s", func(f *figures) float64 { return f.Cold }},
	}
}

// gatewayGoals returns the goals for HTTPRoutes: besides those of the project for any
// routes, changes are live sooner, and memory is counted beyond an empty edge.
func gatewayGoals() []goal {
	return append(houseGoals(), []goal{
		{phaseCreate, 5000, "new HTTPRoute live, p99", 10, "ms", func(f *figures) float64 { return f.Create.FromCall.P99 }},
		{phaseEndpoint, 5000, "endpoint of an HTTPRoute live, p99", 10, "ms", func(f *figures) float64 { return f.Endpoint.FromCall.P99 }},
		{phaseIdle, 5000, "memory above an empty edge", 60, "MB", (*figures).above},
		{phaseBeside, 5000, "CPU per request, HTTPRoutes to Ingresses, median", requestRatio, "times", func(f *figures) float64 { return f.beside().Times }},
		{phaseListeners, 5000, "listener open, p99", 50, "ms", func(f *figures) float64 { return f.listeners().Added.FromCall.P99 }},
		{phaseListeners, 5000, "listener closed, p99", 50, "ms", func(f *figures) float64 { return f.listeners().Removed.FromCall.P99 }},
	}...)
}

// met reports whether the figure is below the limit. A figure of zero was not
// measured and does not meet it.
func (g goal) met(f *figures) bool {
	value := g.figure(f)
	return value > 0 && value < g.limit
}

// newReport starts a report with the machine and the settings that affect
// results.
func newReport(s *settings) *report {
	var setting []string
	for name, on := range map[string]bool{"tls": s.tls, "status": s.status, "nginx": s.nginx, "gateway": s.gateway, "fsync=false": !s.fsync} {
		if on {
			setting = append(setting, name)
		}
	}
	slices.Sort(setting)
	setting = append(append(setting, s.Environment...), s.Options...)
	return &report{
		Began: time.Now(), Only: s.only, Gateway: s.gateway, Setting: strings.Join(setting, " "),
		Machine: ground.Machine(),
	}
}

// goals returns the goals that apply to a size and to the phases of this run.
func (r *report) goals(f *figures) []goal {
	goals := houseGoals()
	if r.Gateway {
		goals = gatewayGoals()
	}
	return slices.DeleteFunc(goals, func(g goal) bool {
		return g.ingresses != f.Ingresses || !r.ran(g.phase)
	})
}

// ran reports whether a phase was selected, whether or not the run got that
// far.
func (r *report) ran(phase string) bool {
	return (&settings{only: r.Only, gateway: r.Gateway}).measures(phase)
}

// decisions judges the goals of all sizes.
func (r *report) decisions() []ground.Decision {
	var all []ground.Decision
	for _, f := range r.Sizes {
		for _, g := range r.goals(f) {
			all = append(all, ground.Decision{
				Met: g.met(f), Size: fmt.Sprintf("%d Ingresses", g.ingresses), Name: g.name,
				Value: g.figure(f), Limit: g.limit, Unit: g.unit, Bound: "below",
			})
		}
	}
	return all
}

// print writes one table with a column per size, without the rows of phases
// that were not selected, and below it the goals.
func (r *report) print(out io.Writer) {
	if len(r.Sizes) == 0 {
		return
	}
	table := ground.NewTable(out, r.Sizes)
	row := table.Row
	row("Ingresses", "%d", func(f *figures) []any { return []any{f.Ingresses} })
	row("cold start, s", "%.2f", func(f *figures) []any { return []any{f.Cold} })
	row("CPU of it, s", "%.2f", func(f *figures) []any { return []any{f.ColdCPU} })
	row("RSS settled (peak), MB", "%.0f (%.0f)", func(f *figures) []any { return []any{f.Settled, f.Peak} })
	if r.ran(phaseLoad) {
		row("RSS with all routes in use, MB", "%.0f", func(f *figures) []any { return []any{f.InUse} })
	}
	row("RSS at the end (peak), MB", "%.0f (%.0f)", func(f *figures) []any { return []any{f.Loaded, f.PeakEver} })
	delays := func(name string, of func(*figures) ground.Spread) {
		row(name+" p50 / p99, ms", "%.1f / %.1f", func(f *figures) []any { return []any{of(f).P50, of(f).P99} })
	}
	if r.ran(phaseCreate) {
		delays("create to 200", func(f *figures) ground.Spread { return f.Create.FromCall })
		delays("event to 200", func(f *figures) ground.Spread { return f.Create.FromSight })
		delays("the call itself", func(f *figures) ground.Spread { return f.Create.Call })
	}
	if r.ran(phaseEndpoint) {
		delays("endpoint change to routed", func(f *figures) ground.Spread { return f.Endpoint.FromCall })
		delays("event to routed", func(f *figures) ground.Spread { return f.Endpoint.FromSight })
		delays("the call itself", func(f *figures) ground.Spread { return f.Endpoint.Call })
	}
	if r.ran(phaseWork) {
		row("CPU per create, ms", "%.2f", func(f *figures) []any { return []any{f.CreateCPU} })
		row("CPU per endpoint change, ms", "%.2f", func(f *figures) []any { return []any{f.EndpointCPU} })
	}
	if r.ran(phaseListeners) {
		row("RSS above an empty edge, MB", "%.0f", func(f *figures) []any { return []any{f.above()} })
		row("Gateways with listeners (requests meanwhile)", "%d (%d)", func(f *figures) []any { return []any{f.listeners().Gateways, f.listeners().Requests} })
		delays("listener added to 200", func(f *figures) ground.Spread { return f.listeners().Added.FromCall })
		delays("event to 200", func(f *figures) ground.Spread { return f.listeners().Added.FromSight })
		delays("the call itself", func(f *figures) ground.Spread { return f.listeners().Added.Call })
		delays("listener removed to refused", func(f *figures) ground.Spread { return f.listeners().Removed.FromCall })
		delays("event to refused", func(f *figures) ground.Spread { return f.listeners().Removed.FromSight })
		delays("the call itself", func(f *figures) ground.Spread { return f.listeners().Removed.Call })
		row("RSS with all Gateways, MB", "%.0f", func(f *figures) []any { return []any{f.listeners().Resident} })
	}
	r.printLoads(row)
	table.Flush()
	ground.PrintDecisions(out, r.decisions())
}

// printLoads writes the rows for the cost of requests, with the ratios in
// parentheses; the peer's rows follow those of the edge.
func (r *report) printLoads(row func(name, format string, values func(*figures) []any)) {
	loads := func(title string, of func(*figures) *requestFigures) {
		if r.ran(phaseLoad) {
			row(title+"one endpoint, µs", "%.1f", func(f *figures) []any { return []any{of(f).One} })
			row("one route to all endpoints, µs (times)", "%.1f (%.2f)", func(f *figures) []any { return []any{of(f).Wide, of(f).WideTimes} })
			row("all routes to all endpoints, µs (times)", "%.1f (%.2f)", func(f *figures) []any { return []any{of(f).All, of(f).AllTimes} })
		}
		if r.ran(phaseShared) {
			row("one name by one route to one endpoint, µs", "%.1f", func(f *figures) []any { return []any{of(f).Alone} })
			row("all names by one route to one endpoint, µs", "%.1f", func(f *figures) []any { return []any{of(f).Any} })
			row("all names by a route each, µs (times, and one name)", "%.1f (%.2f, %.2f)", func(f *figures) []any {
				return []any{of(f).Shared, of(f).SharedTimes, of(f).SharedAloneTimes}
			})
		}
	}
	if r.ran(phaseBeside) {
		row("CPU per request, Ingresses and HTTPRoutes, µs", "%.1f and %.1f", func(f *figures) []any { return []any{f.beside().Ingress, f.beside().Route} })
		row("median times (half of the rounds)", "%.3f (%.3f to %.3f)", func(f *figures) []any { return []any{f.beside().Times, f.beside().Low, f.beside().High} })
	}
	loads("CPU per request, ", func(f *figures) *requestFigures { return &f.Request })
	if peer := r.Sizes[0].Peer; peer != nil {
		loads(peer.Name+": ", func(f *figures) *requestFigures { return &cmp.Or(f.Peer, &peerFigures{}).requestFigures })
	}
}
