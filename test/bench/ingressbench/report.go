package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is everything that was measured.
type report struct {
	Began   time.Time  `json:"began"`
	Machine string     `json:"machine"`
	Setting string     `json:"setting"`
	Sizes   []*figures `json:"sizes"`
	// Only are the phases that were run; empty is all.
	Only []string `json:"only,omitempty"`
}

// figures are those of one size.
type figures struct {
	Ingresses int `json:"ingresses"`

	Ready   float64 `json:"readySeconds"`
	Cold    float64 `json:"coldSeconds"`
	ColdCPU float64 `json:"coldCPUSeconds"`

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

	// Peer has the same loads on another proxy.
	Peer *peerFigures `json:"peer,omitempty"`
}

// requestFigures are the microseconds of CPU time of a request with each load,
// and how many times those of another it is.
type requestFigures struct {
	One         float64 `json:"oneHostOneEndpointMicros"`
	Wide        float64 `json:"oneHostAllEndpointsMicros"`
	WideTimes   float64 `json:"oneHostAllEndpointsTimes"`
	All         float64 `json:"allHostsAllEndpointsMicros"`
	AllTimes    float64 `json:"allHostsAllEndpointsTimes"`
	RoutesTimes float64 `json:"allHostsToOneHostTimes"`

	// Any and Shared are for as many names with one endpoint, by one route and by a
	// route for each.
	Any         float64 `json:"allNamesOneRouteMicros"`
	Shared      float64 `json:"allNamesOwnRoutesMicros"`
	SharedTimes float64 `json:"allNamesOwnRoutesTimes"`
	// Alone is for one name with that endpoint.
	Alone            float64 `json:"oneNameMicros"`
	SharedAloneTimes float64 `json:"allNamesOwnRoutesToOneNameTimes"`
}

// peerFigures are those of another proxy.
type peerFigures struct {
	Name string `json:"name"`
	requestFigures
}

// delayFigures are how long changes took to be live.
type delayFigures struct {
	FromCall  spread `json:"fromCall"`
	FromSight spread `json:"fromEvent"`
}

// spread is a set of delays, in milliseconds.
type spread struct {
	P50 float64 `json:"p50Millis"`
	P99 float64 `json:"p99Millis"`
	Max float64 `json:"maxMillis"`
}

func (s spread) String() string {
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, at most %.1f ms", s.P50, s.P99, s.Max)
}

// spreadOf sorts the delays, of which there is at least one.
func spreadOf(delays []time.Duration) spread {
	slices.Sort(delays)
	at := func(percent int) float64 { return milliseconds(delays[(len(delays)*percent+99)/100-1]) }
	return spread{P50: at(50), P99: at(99), Max: at(100)}
}

// goal is what a figure should be below.
type goal struct {
	phase     string // that measures it
	ingresses int
	name      string
	limit     float64
	unit      string
	figure    func(*figures) float64
}

// requestRatio is how much more a request may cost with all routes than with one:
// as much, but for the noise of a machine. It is judged with as many endpoints, with
// one endpoint, and with one endpoint and as many names. What one host with one
// endpoint costs stands beside it. That has one connection where the others have
// thousands, whose price is the kernel's; another proxy shows how much it is.
const requestRatio = 1.1

// houseGoals are what a run is judged by, as far as it has the sizes.
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

// met reports whether the goal is reached. What was not measured is not.
func (g goal) met(f *figures) bool {
	value := g.figure(f)
	return value > 0 && value < g.limit
}

func newReport(s *settings) *report {
	var setting []string
	for name, on := range map[string]bool{"tls": s.tls, "status": s.status} {
		if on {
			setting = append(setting, name)
		}
	}
	slices.Sort(setting)
	setting = append(append(setting, s.environment...), s.options...)
	return &report{
		Began: time.Now(), Only: s.only, Setting: strings.Join(setting, " "),
		Machine: fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
	}
}

// heading says where and how it is measured. A machine that others use shows in
// its load.
func (r *report) heading() string {
	load, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(load), " ")
	return strings.TrimSpace(fmt.Sprintf("%s, load average %s at the start; %s", r.Machine, average, r.Setting))
}

// goals are those of a size that can be judged.
func (r *report) goals(f *figures) []goal {
	return slices.DeleteFunc(houseGoals(), func(g goal) bool {
		return g.ingresses != f.Ingresses || !r.ran(g.phase)
	})
}

// ran reports whether a phase was to be run.
func (r *report) ran(phase string) bool { return (&settings{only: r.Only}).measures(phase) }

// missed counts the goals that are not reached.
func (r *report) missed() int {
	count := 0
	for _, f := range r.Sizes {
		for _, g := range r.goals(f) {
			if !g.met(f) {
				count++
			}
		}
	}
	return count
}

// deliver prints the tables, and writes the file if there is one to write.
func (r *report) deliver(out io.Writer, jsonFile string) error {
	r.print(out)
	if jsonFile == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(jsonFile, append(text, '\n'), 0o644)
}

func (r *report) print(out io.Writer) {
	if len(r.Sizes) == 0 {
		return
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	row := func(name, format string, values func(*figures) []any) {
		fmt.Fprint(table, name, "\t")
		for _, f := range r.Sizes {
			fmt.Fprintf(table, format+"\t", values(f)...)
		}
		fmt.Fprintln(table)
	}
	row("Ingresses", "%d", func(f *figures) []any { return []any{f.Ingresses} })
	row("cold start, s", "%.2f", func(f *figures) []any { return []any{f.Cold} })
	row("CPU of it, s", "%.2f", func(f *figures) []any { return []any{f.ColdCPU} })
	row("RSS settled (peak), MB", "%.0f (%.0f)", func(f *figures) []any { return []any{f.Settled, f.Peak} })
	if r.ran(phaseLoad) {
		row("RSS with all routes in use, MB", "%.0f", func(f *figures) []any { return []any{f.InUse} })
	}
	row("RSS at the end (peak), MB", "%.0f (%.0f)", func(f *figures) []any { return []any{f.Loaded, f.PeakEver} })
	delays := func(name string, of func(*figures) spread) {
		row(name+" p50 / p99, ms", "%.1f / %.1f", func(f *figures) []any { return []any{of(f).P50, of(f).P99} })
	}
	if r.ran(phaseCreate) {
		delays("create to 200", func(f *figures) spread { return f.Create.FromCall })
		delays("event to 200", func(f *figures) spread { return f.Create.FromSight })
	}
	if r.ran(phaseEndpoint) {
		delays("endpoint change to routed", func(f *figures) spread { return f.Endpoint.FromCall })
		delays("event to routed", func(f *figures) spread { return f.Endpoint.FromSight })
	}
	if r.ran(phaseWork) {
		row("CPU per create, ms", "%.2f", func(f *figures) []any { return []any{f.CreateCPU} })
		row("CPU per endpoint change, ms", "%.2f", func(f *figures) []any { return []any{f.EndpointCPU} })
	}
	r.printLoads(row)
	_ = table.Flush() // out is a terminal or a pipe
	r.printGoals(out)
}

// printLoads prints what requests cost, and how many times what one to one
// endpoint does.
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
	loads("CPU per request, ", func(f *figures) *requestFigures { return &f.Request })
	if peer := r.Sizes[0].Peer; peer != nil {
		loads(peer.Name+": ", func(f *figures) *requestFigures { return &cmp.Or(f.Peer, &peerFigures{}).requestFigures })
	}
}

func (r *report) printGoals(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table)
	for _, f := range r.Sizes {
		for _, g := range r.goals(f) {
			verdict := "MISSED"
			if g.met(f) {
				verdict = "ok"
			}
			fmt.Fprintf(table, "%s\t%d Ingresses\t%s\t%.2f %s\tgoal below %.4g %s\n", verdict, g.ingresses, g.name, g.figure(f), g.unit, g.limit, g.unit)
		}
	}
	_ = table.Flush()
}
