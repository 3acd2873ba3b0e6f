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
	Began     time.Time         `json:"began"`
	Took      string            `json:"took"`
	Machine   string            `json:"machine"`
	Duration  string            `json:"duration"`
	Rounds    int               `json:"rounds"`
	Proxies   []version         `json:"proxies"`
	Scenarios []*scenarioResult `json:"scenarios"`

	expected time.Duration
}

// scenarioResult is what was measured in one scenario.
type scenarioResult struct {
	Name    string         `json:"name"`
	About   string         `json:"about"`
	Proxies []*proxyResult `json:"proxies"`
}

// proxyResult is what was measured of one proxy. Failure and Skipped say why
// it has no more samples.
type proxyResult struct {
	Name    string   `json:"name"`
	Failure string   `json:"failure,omitempty"`
	Skipped string   `json:"skipped,omitempty"`
	Samples []sample `json:"samples,omitempty"`
}

// sample is one turn of one proxy. Times are in microseconds.
type sample struct {
	Requests  int64   `json:"requests"`
	Errors    int64   `json:"errors"`
	Reason    string  `json:"reason,omitempty"` // of an error, where it is known
	Rate      float64 `json:"requestsPerSecond"`
	P50       float64 `json:"p50Micros"`
	P99       float64 `json:"p99Micros"`
	CPUMicros float64 `json:"cpuMicrosPerRequest"`
	MemoryMB  float64 `json:"memoryMB"`
}

func newReport(s *settings, found *tools) *report {
	return &report{
		Began: time.Now(), Duration: s.duration.String(), Rounds: s.rounds, Proxies: found.versions,
		Machine:  fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		expected: s.expected(),
	}
}

// heading says what is about to be done.
func (r *report) heading() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; %d rounds of %s, about %s in all\n", r.Machine, r.Rounds, r.Duration, r.expected.Round(time.Second))
	for _, v := range r.Proxies {
		fmt.Fprintf(&b, "  %-10s %s\n", v.Name, v.Version)
	}
	return strings.TrimRight(b.String(), "\n")
}

// gaveUp reports whether the proxy gets no more turns.
func (p *proxyResult) gaveUp() bool { return p.Failure != "" || p.Skipped != "" }

// failed reports whether a proxy failed, or gave a wrong answer.
func (r *report) failed() bool {
	for _, s := range r.Scenarios {
		for _, p := range s.Proxies {
			if p.Failure != "" || p.errors() > 0 {
				return true
			}
		}
	}
	return false
}

func (p *proxyResult) errors() int64 {
	var total int64
	for _, s := range p.Samples {
		total += s.Errors
	}
	return total
}

// spread is the middle of some values, and their ends.
type spread struct{ median, least, most float64 }

// spreadOf looks at one figure of all samples, of which there is at least one.
func spreadOf(samples []sample, figure func(sample) float64) spread {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = figure(s)
	}
	slices.Sort(values)
	middle := len(values) / 2
	median := values[middle]
	if len(values)%2 == 0 {
		median = (values[middle-1] + values[middle]) / 2
	}
	return spread{median: median, least: values[0], most: values[len(values)-1]}
}

func cpuOf(s sample) float64 { return s.CPUMicros }

// deliver prints the tables, and writes the file if there is one to write.
func (r *report) deliver(out io.Writer, jsonFile string) error {
	r.print(out)
	if jsonFile == "" {
		return nil
	}
	if err := r.writeJSON(jsonFile); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "written:", jsonFile)
	return err
}

// print writes a table for each scenario: medians, and the ends in brackets.
func (r *report) print(out io.Writer) {
	for _, s := range r.Scenarios {
		fmt.Fprintf(out, "\n%s: %s; median of %d (least..most)\n", s.Name, s.About, s.rounds())
		table := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(table, "proxy\treq/s\t\tp50\tp99\tCPU µs/req\t\tto nginx\tRSS MB\terrors\t")
		base := s.base()
		for _, p := range s.Proxies {
			p.printRow(table, base)
		}
		table.Flush()
		for _, p := range s.Proxies {
			if why := cmp.Or(p.Failure, p.Skipped); why != "" {
				fmt.Fprintf(out, "  %s: %s\n", p.Name, strings.Join(strings.Fields(why), " "))
			}
		}
	}
	fmt.Fprintln(out)
}

// rounds is how many turns the proxies had, those that gave up aside.
func (s *scenarioResult) rounds() int {
	most := 0
	for _, p := range s.Proxies {
		most = max(most, len(p.Samples))
	}
	return most
}

// base is what nginx needed for a request; 0 when it was not measured.
func (s *scenarioResult) base() float64 {
	for _, p := range s.Proxies {
		if p.Name == nginxName && len(p.Samples) > 0 {
			return spreadOf(p.Samples, cpuOf).median
		}
	}
	return 0
}

func (p *proxyResult) printRow(out io.Writer, base float64) {
	if len(p.Samples) == 0 {
		state := "not measured"
		switch {
		case p.Failure != "":
			state = "failed"
		case p.Skipped != "":
			state = "skipped"
		}
		fmt.Fprintf(out, "%s\t%s\t\t\t\t\t\t\t\t\t\n", p.Name, state)
		return
	}
	rate := spreadOf(p.Samples, func(s sample) float64 { return s.Rate })
	p50 := spreadOf(p.Samples, func(s sample) float64 { return s.P50 })
	p99 := spreadOf(p.Samples, func(s sample) float64 { return s.P99 })
	cpu := spreadOf(p.Samples, cpuOf)
	memory := spreadOf(p.Samples, func(s sample) float64 { return s.MemoryMB })
	ratio := "-"
	if base > 0 {
		ratio = fmt.Sprintf("%.2f", cpu.median/base)
	}
	fmt.Fprintf(out, "%s\t%.0f\t(%.0f..%.0f)\t%s\t%s\t%.1f\t(%.1f..%.1f)\t%s\t%.0f\t%d\t\n",
		p.Name, rate.median, rate.least, rate.most, shortTime(p50.median), shortTime(p99.median),
		cpu.median, cpu.least, cpu.most, ratio, memory.median, p.errors())
}

// shortTime writes microseconds for people.
func shortTime(micros float64) string {
	if micros < 1000 {
		return fmt.Sprintf("%.0f µs", micros)
	}
	return fmt.Sprintf("%.2f ms", micros/1000)
}

// writeJSON writes all samples to a file.
func (r *report) writeJSON(file string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
