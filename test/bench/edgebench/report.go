package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"slipway.dev/slipway/test/bench/ground"
)

// report holds all results of a run. Exported fields are the JSON file.
type report struct {
	Began     time.Time         `json:"began"`
	Took      string            `json:"took"`
	Machine   string            `json:"machine"`
	Duration  string            `json:"duration"`
	Rounds    int               `json:"rounds"`
	Proxies   []version         `json:"proxies"`
	Scenarios []*scenarioResult `json:"scenarios"`
	Memory    []*memoryResult   `json:"memory,omitempty"`
	// Active is the number of active connections whose memory was measured, and Idle that of idle ones, of which IdleRequested were requested.
	Active        int `json:"active,omitempty"`
	Idle          int `json:"idle,omitempty"`
	IdleRequested int `json:"idleRequested,omitempty"`

	// expected is the estimated duration for the heading.
	expected time.Duration
}

// scenarioResult holds the results of all proxies in one scenario, in the order
// of their turns.
type scenarioResult struct {
	Name    string         `json:"name"`
	About   string         `json:"about"`
	Proxies []*proxyResult `json:"proxies"`
}

// proxyResult holds the samples of one proxy. Failure or Skipped is set if it
// left the scenario early; samples of earlier rounds are kept.
type proxyResult struct {
	Name    string   `json:"name"`
	CPUs    int      `json:"cpus,omitempty"` // 0 is all
	Failure string   `json:"failure,omitempty"`
	Skipped string   `json:"skipped,omitempty"`
	Samples []sample `json:"samples,omitempty"`
}

// sample is the result of one turn of one proxy. Times are in microseconds,
// memory is that at the end of the load.
type sample struct {
	Round     int     `json:"round"`
	Requests  int64   `json:"requests"`
	Errors    int64   `json:"errors"`
	Reason    string  `json:"reason,omitempty"` // of an error, where it is known
	Rate      float64 `json:"requestsPerSecond"`
	P50       float64 `json:"p50Micros"`
	P99       float64 `json:"p99Micros"`
	CPUMicros float64 `json:"cpuMicrosPerRequest"`
	// Instructions per request outside the kernel, with -instructions only; the
	// other figures are then those of the emulator.
	Instructions float64 `json:"instructionsPerRequest,omitempty"`
	MemoryMB     float64 `json:"memoryMB"`
	// SlowRate is what each slow reader beside the load got, in bytes per second.
	SlowRate float64 `json:"slowReaderBytesPerSecond,omitempty"`
	// Calls are the system calls per request, with -syscalls only.
	Calls map[string]float64 `json:"systemCallsPerRequest,omitempty"`
}

// newReport starts a report with the settings and versions, which a result
// cannot be compared without.
func newReport(s *settings, found *tools) *report {
	return &report{
		Began: time.Now(), Duration: s.duration.String(), Rounds: s.rounds, Proxies: found.versions,
		Machine:  ground.Machine(),
		expected: s.expected(),
	}
}

// heading returns the machine, the settings and the versions, to be printed
// before the first scenario.
func (r *report) heading() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; %d rounds of %s, about %s in all\n", r.Machine, r.Rounds, r.Duration, r.expected.Round(time.Second))
	for _, v := range r.Proxies {
		fmt.Fprintf(&b, "  %-10s %s\n", v.Name, v.Version)
	}
	return strings.TrimRight(b.String(), "\n")
}

// gaveUp reports whether the proxy gets no more turns in its scenario.
func (p *proxyResult) gaveUp() bool { return p.Failure != "" || p.Skipped != "" }

// failed reports whether any proxy failed or any response under load was an
// error. Skipped proxies do not count.
func (r *report) failed() bool {
	for _, m := range r.Memory {
		if m.Failure != "" {
			return true
		}
	}
	for _, s := range r.Scenarios {
		for _, p := range s.Proxies {
			if p.Failure != "" || p.errors() > 0 {
				return true
			}
		}
	}
	return false
}

// errors returns the number of failed requests over all samples.
func (p *proxyResult) errors() int64 {
	var total int64
	for _, s := range p.Samples {
		total += s.Errors
	}
	return total
}

// spread is the median of a figure and its range.
type spread struct{ median, least, most float64 }

// text is two cells of a table, for a ratio.
func (s spread) text() string { return fmt.Sprintf("%.2f\t(%.2f..%.2f)", s.median, s.least, s.most) }

// spreadOf returns the spread of one figure over all samples, of which there
// must be at least one. The median of an even number is the mean of the middle
// two.
func spreadOf[S any](samples []S, figure func(S) float64) spread {
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

// costOf selects the figure that proxies are compared by: instructions where they
// were counted, and else CPU time.
func costOf(s sample) float64 { return cmp.Or(s.Instructions, s.CPUMicros) }

// costUnit is what costOf counts.
func (s sample) costUnit() string {
	if s.Instructions > 0 {
		return "instructions"
	}
	return "µs CPU"
}

// deliver prints the tables and, if jsonFile is not empty, writes the report to
// it.
func (r *report) deliver(out io.Writer, jsonFile string) error {
	r.print(out)
	if jsonFile == "" {
		return nil
	}
	if err := ground.WriteJSON(jsonFile, r); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "written:", jsonFile)
	return err
}

// print writes a table for each scenario: medians, with the range in
// parentheses. Failures and reasons for skipping follow the table, because they
// do not fit into a column.
func (r *report) print(out io.Writer) {
	r.printMemory(out)
	for _, s := range r.Scenarios {
		if slices.ContainsFunc(s.Proxies, func(p *proxyResult) bool { return p.calls() != nil }) {
			s.printCalls(out)
			continue
		}
		fmt.Fprintf(out, "\n%s: %s; median of %d (least..most)\n", s.Name, s.About, s.rounds())
		table := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(table, "proxy\treq/s\t\tp50\tp99\t%s/req\t\tto nginx\t\tRSS MB\terrors\t\n", s.costUnit())
		for _, p := range s.Proxies {
			p.printRow(table, s.base(p.CPUs))
		}
		table.Flush()
		for _, p := range s.Proxies {
			if why := cmp.Or(p.Failure, p.Skipped); why != "" {
				fmt.Fprintf(out, "  %s: %s\n", p.label(), strings.Join(strings.Fields(why), " "))
			}
		}
		s.printSlowReaders(out)
		s.printScaling(out)
	}
	fmt.Fprintln(out)
}

// rounds returns the number of samples of the proxy that has most: an
// interrupted run has fewer than the settings ask for.
func (s *scenarioResult) rounds() int {
	most := 0
	for _, p := range s.Proxies {
		most = max(most, len(p.Samples))
	}
	return most
}

// costUnit is that of the samples, which are all of one kind.
func (s *scenarioResult) costUnit() string {
	for _, p := range s.Proxies {
		if len(p.Samples) > 0 {
			return p.Samples[0].costUnit()
		}
	}
	return sample{}.costUnit()
}

// base is the baseline, nginx with as many CPUs; nil if it was not measured.
func (s *scenarioResult) base(cpus int) *proxyResult {
	for _, p := range s.Proxies {
		if p.Name == nginxName && p.CPUs == cpus {
			return p
		}
	}
	return nil
}

// ratio is a figure of a proxy in relation to that of another one.
type ratio float64

// ratios are those of a figure in the same round, for which the turns were a few seconds
// apart, and the machine was as busy; none if there is no base.
func (p *proxyResult) ratios(base *proxyResult, figure func(sample) float64) []ratio {
	if base == nil {
		return nil
	}
	to := map[int]float64{}
	for _, taken := range base.Samples {
		to[taken.Round] = figure(taken)
	}
	var ratios []ratio
	for _, taken := range p.Samples {
		if to[taken.Round] > 0 {
			ratios = append(ratios, ratio(figure(taken)/to[taken.Round]))
		}
	}
	return ratios
}

// value makes a ratio a figure for spreadOf.
func (r ratio) value() float64 { return float64(r) }

// label names the proxy in a table.
func (p *proxyResult) label() string {
	if p.CPUs == 0 {
		return p.Name
	}
	return fmt.Sprintf("%s, CPUs: %d", p.Name, p.CPUs)
}

// printRow writes the row of one proxy. Without samples, the row has the state
// and empty cells, so that the columns stay aligned.
func (p *proxyResult) printRow(out io.Writer, base *proxyResult) {
	if len(p.Samples) == 0 {
		state := "not measured"
		switch {
		case p.Failure != "":
			state = "failed"
		case p.Skipped != "":
			state = "skipped"
		}
		fmt.Fprintf(out, "%s\t%s\t\t\t\t\t\t\t\t\t\t\n", p.label(), state)
		return
	}
	rate := spreadOf(p.Samples, func(s sample) float64 { return s.Rate })
	p50 := spreadOf(p.Samples, func(s sample) float64 { return s.P50 })
	p99 := spreadOf(p.Samples, func(s sample) float64 { return s.P99 })
	cost := spreadOf(p.Samples, costOf)
	memory := spreadOf(p.Samples, func(s sample) float64 { return s.MemoryMB })
	// The ratio to nginx is comparable between machines; absolute CPU times are
	// not.
	relative := "-\t"
	if of := p.ratios(base, costOf); len(of) > 0 {
		relative = spreadOf(of, ratio.value).text()
	}
	fmt.Fprintf(out, "%s\t%.0f\t(%.0f..%.0f)\t%s\t%s\t%.1f\t(%.1f..%.1f)\t%s\t%.0f\t%d\t\n",
		p.label(), rate.median, rate.least, rate.most, shortTime(p50.median), shortTime(p99.median),
		cost.median, cost.least, cost.most, relative, memory.median, p.errors())
}

// shortTime formats microseconds with a unit.
func shortTime(micros float64) string {
	if micros < 1000 {
		return fmt.Sprintf("%.0f µs", micros)
	}
	return fmt.Sprintf("%.2f ms", micros/1000)
}
