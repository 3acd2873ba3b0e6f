package up

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Row is one line of the table: a part, and where it runs.
type Row struct {
	// Part is the name of the part.
	Part string `json:"part"`
	// Address is where it is reached, if it is.
	Address string `json:"address,omitempty"`
	// Detail describes the part and its state.
	Detail string `json:"detail"`
	// PID is the part's process, if it has one.
	PID int `json:"pid,omitempty"`
	// Log is the file that it logs to, if it does.
	Log string `json:"log,omitempty"`
}

// Hint is a command to try.
type Hint struct {
	// Title is what the command does.
	Title string `json:"title"`
	// Command can be pasted into a shell.
	Command string `json:"command"`
}

// Facts is the output of slipway up when everything runs: a table for people,
// one JSON object for scripts.
type Facts struct {
	// PID is the process of `slipway up`: SIGTERM stops everything.
	PID int `json:"pid"`
	// Dir is the state directory.
	Dir string `json:"dir"`
	// Kubeconfig gives access to the cluster.
	Kubeconfig string `json:"kubeconfig"`
	// Parts are the rows of the table, in the order of their start.
	Parts []Row `json:"parts"`
	// Try are the commands to begin with.
	Try []Hint `json:"try"`
}

// writeJSON writes the facts on one line, for a script that reads a line and
// leaves the rest running.
func (f Facts) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(f)
}

// writeTable writes the facts for a person.
func (f Facts) writeTable(w io.Writer) error {
	var b strings.Builder
	b.WriteString("\nslipway is up.\n\n")
	section(&b, func(row func(...string)) {
		row("PART", "ADDRESS", "WHAT")
		for _, r := range f.Parts {
			address := cmp.Or(r.Address, "-")
			row(r.Part, address, r.Detail)
		}
	})
	b.WriteString("\n")
	section(&b, func(row func(...string)) {
		row("kubeconfig", f.Kubeconfig)
		row("state", f.Dir)
		for _, r := range f.Parts {
			if r.Log != "" {
				row("log of "+r.Part, r.Log)
			}
		}
	})
	b.WriteString("\nTry it:\n")
	section(&b, func(row func(...string)) {
		for _, hint := range f.Try {
			row("  "+hint.Title, hint.Command)
		}
	})
	b.WriteString("\nCtrl-C stops everything and keeps the state.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// section aligns rows among themselves.
func section(b *strings.Builder, fill func(row func(cells ...string))) {
	columns := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fill(func(cells ...string) {
		fmt.Fprintln(columns, "  "+strings.Join(cells, "\t"))
	})
	// A strings.Builder does not fail.
	_ = columns.Flush()
}

// shellQuote quotes a text as one word of a shell command.
func shellQuote(text string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+:=@%,", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
