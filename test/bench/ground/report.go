package ground

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Machine describes the machine, which a result cannot be compared without.
func Machine() string {
	return fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// Heading returns a machine, its load average and the settings. The load
// average shows whether other work disturbed the run.
func Heading(machine, setting string) string {
	load, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(load), " ")
	return strings.TrimSpace(fmt.Sprintf("%s, load average %s at the start; %s", machine, average, setting))
}

// WriteJSON writes a report to a file; an empty name writes none.
func WriteJSON(file string, report any) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(report, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// Finish writes the report of a run that ended with err, and adds the goals that
// were missed to the errors if there is no other.
func Finish(err error, file string, report any, decisions []Decision) error {
	err = errors.Join(err, WriteJSON(file, report))
	if err == nil && Missed(decisions) > 0 {
		err = errors.New("goals were missed; see above")
	}
	return err
}

// Spread is a distribution of delays in milliseconds.
type Spread struct {
	P50 float64 `json:"p50Millis"`
	P99 float64 `json:"p99Millis"`
	Max float64 `json:"maxMillis"`
}

// Text formats the distribution for the progress lines.
func (s Spread) Text(digits int) string {
	return fmt.Sprintf("p50 %.*f ms, p99 %.*f ms, at most %.*f ms", digits, s.P50, digits, s.P99, digits, s.Max)
}

// SpreadOf returns the distribution of delays, of which there must be at least
// one. It sorts them in place.
func SpreadOf(delays []time.Duration) Spread {
	slices.Sort(delays)
	at := func(percent int) float64 {
		return float64(delays[(len(delays)*percent+99)/100-1]) / float64(time.Millisecond)
	}
	return Spread{P50: at(50), P99: at(99), Max: at(100)}
}

// Decision is a goal and the figure that it limits, at one size.
type Decision struct {
	Met          bool
	Size         string // such as 1000 Applications
	Name         string
	Value, Limit float64
	Unit         string
	Bound        string // how the limit limits: below, or at most
}

// PrintDecisions writes one line per goal.
func PrintDecisions(out io.Writer, decisions []Decision) {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table)
	for _, v := range decisions {
		met := "MISSED"
		if v.Met {
			met = "ok"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.2f %s\tgoal %s %.4g %s\n", met, v.Size, v.Name, v.Value, v.Unit, v.Bound, v.Limit, v.Unit)
	}
	_ = table.Flush() // out is a terminal or a pipe
}

// Missed returns the number of goals that are not met.
func Missed(decisions []Decision) int {
	count := 0
	for _, v := range decisions {
		if !v.Met {
			count++
		}
	}
	return count
}

// Table is a table with one column per size. Row writes one figure of all
// sizes.
type Table[Figures any] struct {
	writer *tabwriter.Writer
	sizes  []Figures
}

// NewTable starts a table. The caller ends it with Flush.
func NewTable[Figures any](out io.Writer, sizes []Figures) *Table[Figures] {
	fmt.Fprintln(out)
	return &Table[Figures]{tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight), sizes}
}

// Row writes a row.
func (t *Table[Figures]) Row(name, format string, values func(Figures) []any) {
	fmt.Fprint(t.writer, name, "\t")
	for _, size := range t.sizes {
		fmt.Fprintf(t.writer, format+"\t", values(size)...)
	}
	fmt.Fprintln(t.writer)
}

// Flush writes the table.
func (t *Table[Figures]) Flush() { _ = t.writer.Flush() } // out is a terminal or a pipe
