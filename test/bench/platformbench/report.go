package main

import (
	"fmt"
	"time"

	"slipway.dev/slipway/test/bench/ground"
)

// report holds all results of a run. It is the JSON file as well.
type report struct {
	Began   time.Time  `json:"began"`
	Machine string     `json:"machine"`
	Setting string     `json:"setting"`
	Sizes   []*figures `json:"sizes"`
}

// figures are the results of one number of runtimes. CPU time and memory are
// those of the platform.
type figures struct {
	Runtimes     int `json:"runtimes"`
	Applications int `json:"applications"`

	Register   float64 `json:"registerSeconds"`
	Connect    float64 `json:"connectSeconds"`
	Report     float64 `json:"reportSeconds"`
	ReportCPU  float64 `json:"reportCPUSeconds"`
	ReportPeak float64 `json:"reportPeakMB"`
	Requests   float64 `json:"requestsPerSecond"`

	SteadyCPU    float64 `json:"steadyCPUShare"` // of one core
	SteadyMemory float64 `json:"steadyMemoryMB"`

	FirstRows float64       `json:"firstRowsMillis"`
	AllRows   float64       `json:"allRowsMillis"`
	Change    ground.Spread `json:"change"`

	Ready       float64 `json:"restartReadySeconds"`
	Restart     float64 `json:"restartTunnelsSeconds"`
	Served      float64 `json:"restartServedSeconds"`
	RestartCPU  float64 `json:"restartCPUSeconds"`
	RestartPeak float64 `json:"restartPeakMB"`
}

func newReport(s *settings) *report {
	return &report{Began: time.Now().UTC().Truncate(time.Second), Machine: ground.Machine(), Setting: s.text()}
}

// consoleSize is the number of Applications at which the goals of the console
// apply. With more a browser receives more than it shows.
const consoleSize = 10_000

// decisions compares the figures with the goals, as far as they were measured.
func (r *report) decisions() (all []ground.Decision) {
	for _, f := range r.Sizes {
		size := fmt.Sprintf("%d runtimes", f.Runtimes)
		add := func(name string, value, limit float64, unit string) {
			if value > 0 {
				all = append(all, ground.Decision{Met: value <= limit, Size: size, Name: name, Value: value, Limit: limit, Unit: unit, Bound: "at most"})
			}
		}
		add("all tunnels after a restart", f.Restart, 30, "s")
		if f.Applications <= consoleSize {
			add("first rows of the console", f.FirstRows, 300, "ms")
			add("a change is visible, p99", f.Change.P99, 1000, "ms")
		}
	}
	return all
}
