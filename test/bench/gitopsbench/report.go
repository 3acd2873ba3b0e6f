package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/test/bench/ground"
)

// report holds all results of a run. It is the JSON file as well.
type report struct {
	form form

	Began   time.Time  `json:"began"`
	Machine string     `json:"machine"`
	Setting string     `json:"setting"`
	Sizes   []*figures `json:"sizes"`
}

// figures are the results for one number of Applications. Phases that did not
// run are zero.
type figures struct {
	Applications int           `json:"applications"`
	Agents       int           `json:"agents"`
	Install      syncFigures   `json:"install"`
	Upgrade      syncFigures   `json:"upgrade"`
	One          oneFigures    `json:"one"`
	Idle         idleFigures   `json:"idle"`
	Drift        ground.Spread `json:"drift"`
	Alone        float64       `json:"apiServerAloneSeconds"`

	writes installWrites
	// first is the run of the same size that this one is compared with; nil for none.
	first *figures
}

// beside returns how long a phase takes, by the time that it takes in the first run of
// the size; zero if one of them was not measured.
func (f *figures) beside(phase func(*figures) syncFigures) float64 {
	if f.first == nil || phase(f.first).Seconds == 0 {
		return 0
	}
	return phase(f).Seconds / phase(f.first).Seconds
}

// ratio is how many times as long as the API server alone an installation takes;
// zero if that was not measured.
func (f *figures) ratio() float64 {
	if f.Alone == 0 {
		return 0
	}
	return f.Install.Seconds / f.Alone
}

// syncFigures are the results of a push that changes all Applications. CPU and
// Cluster are CPU time of the agent and of the API server.
type syncFigures struct {
	Seconds  float64 `json:"seconds"`
	CPU      float64 `json:"cpuSeconds"`
	Cluster  float64 `json:"apiServerCPUSeconds"`
	Requests float64 `json:"requests"`
	Renders  float64 `json:"renders"`
	Memory   float64 `json:"memoryMB"`
	Peak     float64 `json:"peakMB"`
}

// oneFigures are the results of a push that changes one Application.
type oneFigures struct {
	Seconds  float64 `json:"seconds"`
	Requests float64 `json:"requests"`
	Renders  float64 `json:"renders"`
}

// idleFigures are the results of an interval without changes. CPU is the share
// of one core.
type idleFigures struct {
	Seconds  float64 `json:"seconds"`
	Requests float64 `json:"requestsPerSecond"`
	Written  int     `json:"objectsWritten"`
	CPU      float64 `json:"cpuShare"`
	Memory   float64 `json:"memoryMB"`
}

// goal is an upper limit for one figure.
type goal struct {
	name   string
	limit  float64
	unit   string
	figure func(*figures) float64
	// measured reports whether the run got through the phase; a goal of a phase
	// that was omitted or failed is not evaluated.
	measured func(*figures) bool
}

// houseGoals returns the goals of the project, by the number of Applications that a run
// of one agent has. Other runs are informational. Those of install and upgrade are for two
// cores that do nothing else, on which the API server is the limit: the report has how
// long it takes alone.
func houseGoals() map[int][]goal {
	installed := func(f *figures) bool { return f.Install.Seconds > 0 }
	upgraded := func(f *figures) bool { return f.Upgrade.Seconds > 0 }
	one := func(f *figures) bool { return f.One.Seconds > 0 }
	idled := func(f *figures) bool { return f.Idle.Seconds > 0 }
	drifted := func(f *figures) bool { return f.Drift.P99 > 0 }
	// pushes are the goals that both sizes have, with limits of their own.
	pushes := func(seconds, memory float64) []goal {
		return []goal{
			{"install", seconds, "s", func(f *figures) float64 { return f.Install.Seconds }, installed},
			{"upgrade", seconds, "s", func(f *figures) float64 { return f.Upgrade.Seconds }, upgraded},
			{"memory, at most", memory, "MB", func(f *figures) float64 { return max(f.Install.Peak, f.Upgrade.Peak) }, installed},
			{"one of all: renders", 1, "", func(f *figures) float64 { return f.One.Renders }, one},
			{"idle: objects written", 0, "", func(f *figures) float64 { return float64(f.Idle.Written) }, idled},
		}
	}
	return map[int][]goal{
		1000: append(pushes(15, 150),
			goal{"one of all: time", 2, "s", func(f *figures) float64 { return f.One.Seconds }, one},
			goal{"one of all: requests", 8, "", func(f *figures) float64 { return f.One.Requests }, one},
			goal{"idle: requests per second", 0.2, "", func(f *figures) float64 { return f.Idle.Requests }, idled},
			goal{"drift repaired, p99", 2000, "ms", func(f *figures) float64 { return f.Drift.P99 }, drifted}),
		10_000: pushes(300, 400),
	}
}

// umbrellaSlack is how much more charts with dependencies may take than the goals.
const umbrellaSlack = 1.2

// met reports whether the figure is within the limit.
func (g goal) met(f *figures) bool { return g.figure(f) <= g.limit }

// newReport starts a report with the machine and the settings that affect
// results.
func newReport(s *settings) *report {
	setting := append(append([]string{string(s.form)}, s.Environment...), s.Options...)
	return &report{
		form: s.form, Began: time.Now(), Setting: strings.Join(setting, " "),
		Machine: ground.Machine(),
	}
}

// decisions judges every goal that applies to a measured size. Both the exit
// code and the table use it, so they cannot differ.
func (r *report) decisions() []ground.Decision {
	var all []ground.Decision
	for _, f := range r.Sizes {
		if f.Agents > 1 {
			continue
		}
		for _, g := range houseGoals()[f.Applications] {
			if r.form == umbrella && g.unit != "" {
				g.limit *= umbrellaSlack
			}
			if g.measured(f) {
				all = append(all, ground.Decision{
					Met: g.met(f), Size: fmt.Sprintf("%d Applications", f.Applications), Name: g.name,
					Value: g.figure(f), Limit: g.limit, Unit: g.unit, Bound: "at most",
				})
			}
		}
	}
	return all
}

// print writes one table with a column per size, and below it the goals.
func (r *report) print(out io.Writer) {
	table := ground.NewTable(out, r.Sizes)
	row := table.Row
	row("Applications / agents", "%d / %d", func(f *figures) []any { return []any{f.Applications, max(1, f.Agents)} })
	// both writes a row with the figures of install and upgrade side by side.
	both := func(name, format string, of func(syncFigures) any) {
		row(name, format+" / "+format, func(f *figures) []any { return []any{of(f.Install), of(f.Upgrade)} })
	}
	both("install / upgrade, s", "%.1f", func(f syncFigures) any { return f.Seconds })
	if slices.ContainsFunc(r.Sizes, func(f *figures) bool { return f.first != nil }) {
		row("install / upgrade by the first run's", "%.2f / %.2f", func(f *figures) []any {
			return []any{f.beside(func(f *figures) syncFigures { return f.Install }), f.beside(func(f *figures) syncFigures { return f.Upgrade })}
		})
	}
	both("CPU of the agent, s", "%.1f", func(f syncFigures) any { return f.CPU })
	both("CPU of the API server, s", "%.1f", func(f syncFigures) any { return f.Cluster })
	both("requests to the API server", "%.0f", func(f syncFigures) any { return f.Requests })
	both("renders", "%.0f", func(f syncFigures) any { return f.Renders })
	both("memory at the end, MB", "%.0f", func(f syncFigures) any { return f.Memory })
	both("memory at most, MB", "%.0f", func(f syncFigures) any { return f.Peak })
	row("one of all, s / renders / requests", "%.2f / %.0f / %.0f",
		func(f *figures) []any { return []any{f.One.Seconds, f.One.Renders, f.One.Requests} })
	row("idle, requests per s / writes", "%.2f / %d", func(f *figures) []any { return []any{f.Idle.Requests, f.Idle.Written} })
	row("drift repaired p50 / p99, ms", "%.0f / %.0f", func(f *figures) []any { return []any{f.Drift.P50, f.Drift.P99} })
	row("API server alone, s / install by it", "%.1f / %.2f", func(f *figures) []any { return []any{f.Alone, f.ratio()} })
	table.Flush()
	ground.PrintDecisions(out, r.decisions())
}
