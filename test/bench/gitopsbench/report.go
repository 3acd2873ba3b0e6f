package main

import (
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

// report holds all results of a run. It is the JSON file as well.
type report struct {
	Began   time.Time  `json:"began"`
	Machine string     `json:"machine"`
	Setting string     `json:"setting"`
	Sizes   []*figures `json:"sizes"`
}

// figures are the results for one number of Applications. Phases that did not
// run are zero.
type figures struct {
	Applications int         `json:"applications"`
	Install      syncFigures `json:"install"`
	Upgrade      syncFigures `json:"upgrade"`
	One          oneFigures  `json:"one"`
	Idle         idleFigures `json:"idle"`
	Drift        spread      `json:"drift"`
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

// spread is a distribution of delays in milliseconds.
type spread struct {
	P50 float64 `json:"p50Millis"`
	P99 float64 `json:"p99Millis"`
	Max float64 `json:"maxMillis"`
}

// String formats the distribution for the progress lines.
func (s spread) String() string {
	return fmt.Sprintf("p50 %.0f ms, p99 %.0f ms, at most %.0f ms", s.P50, s.P99, s.Max)
}

// spreadOf returns the distribution of delays, of which there must be at least
// one. It sorts them in place.
func spreadOf(delays []time.Duration) spread {
	slices.Sort(delays)
	at := func(percent int) float64 {
		return float64(delays[(len(delays)*percent+99)/100-1]) / float64(time.Millisecond)
	}
	return spread{P50: at(50), P99: at(99), Max: at(100)}
}

// megabytes converts to the decimal unit of the report.
func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

// goal is an upper limit for one figure.
type goal struct {
	name   string
	limit  float64
	unit   string
	figure func(*figures) float64
	// measured reports whether the run included the phase; a goal of an omitted
	// phase is not evaluated.
	measured func(*figures) bool
}

// goalSize is the number of Applications at which goals apply. Other sizes are
// informational.
const goalSize = 1000

// houseGoals returns the goals of the project, which a run of goalSize must
// meet.
func houseGoals() []goal {
	always := func(*figures) bool { return true }
	idled := func(f *figures) bool { return f.Idle.Seconds > 0 }
	return []goal{
		{"install", 30, "s", func(f *figures) float64 { return f.Install.Seconds }, always},
		{"upgrade", 30, "s", func(f *figures) float64 { return f.Upgrade.Seconds }, always},
		{"memory, at most", 200, "MB", func(f *figures) float64 { return max(f.Install.Peak, f.Upgrade.Peak) }, always},
		{"one of all: time", 2, "s", func(f *figures) float64 { return f.One.Seconds }, always},
		{"one of all: renders", 1, "", func(f *figures) float64 { return f.One.Renders }, always},
		{"one of all: requests", 10, "", func(f *figures) float64 { return f.One.Requests }, always},
		{"idle: requests per second", 1, "", func(f *figures) float64 { return f.Idle.Requests }, idled},
		{"idle: objects written", 0, "", func(f *figures) float64 { return float64(f.Idle.Written) }, idled},
		{"drift repaired, p99", 2000, "ms", func(f *figures) float64 { return f.Drift.P99 }, always},
	}
}

// met reports whether the figure is within the limit.
func (g goal) met(f *figures) bool { return g.figure(f) <= g.limit }

// newReport starts a report with the machine and the settings that affect
// results.
func newReport(s *settings) *report {
	setting := append(append([]string{string(s.form)}, s.environment...), s.options...)
	return &report{
		Began: time.Now(), Setting: strings.Join(setting, " "),
		Machine: fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
	}
}

// heading returns the machine, its load average and the settings. The load
// average shows whether other work disturbed the run.
func (r *report) heading() string {
	load, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("%s, load average %s at the start; %s", r.Machine, average, r.Setting)
}

// missed returns the number of goals that are not met.
func (r *report) missed() int {
	count := 0
	r.judge(func(_ *figures, _ goal, met bool) {
		if !met {
			count++
		}
	})
	return count
}

// judge calls tell for every goal that applies to a measured size. Both the
// exit code and the table use it, so they cannot differ.
func (r *report) judge(tell func(*figures, goal, bool)) {
	for _, f := range r.Sizes {
		for _, g := range houseGoals() {
			if f.Applications == goalSize && g.measured(f) {
				tell(f, g, g.met(f))
			}
		}
	}
}

// deliver prints the tables and, if jsonFile is not empty, writes the report to
// it.
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

// print writes one table with a column per size, and below it the goals.
func (r *report) print(out io.Writer) {
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	// row writes one figure of all sizes.
	row := func(name, format string, values func(*figures) []any) {
		fmt.Fprint(table, name, "\t")
		for _, f := range r.Sizes {
			fmt.Fprintf(table, format+"\t", values(f)...)
		}
		fmt.Fprintln(table)
	}
	row("Applications", "%d", func(f *figures) []any { return []any{f.Applications} })
	// both writes a row with the figures of install and upgrade side by side.
	both := func(name, format string, of func(syncFigures) any) {
		row(name, format+" / "+format, func(f *figures) []any { return []any{of(f.Install), of(f.Upgrade)} })
	}
	both("install / upgrade, s", "%.1f", func(f syncFigures) any { return f.Seconds })
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
	_ = table.Flush() // out is a terminal or a pipe
	table = tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table)
	r.judge(func(f *figures, g goal, met bool) {
		verdict := "MISSED"
		if met {
			verdict = "ok"
		}
		fmt.Fprintf(table, "%s\t%d Applications\t%s\t%.2f %s\tgoal at most %.4g %s\n",
			verdict, f.Applications, g.name, g.figure(f), g.unit, g.limit, g.unit)
	})
	_ = table.Flush()
}
