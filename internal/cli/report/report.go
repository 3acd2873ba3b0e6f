// Package report prints the findings of checks: the validation of a chart's
// values, and preflight checks. Several commands share it, so that findings
// have one format everywhere.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/preflight"
)

// Values prints a validation report as text, or as JSON if output is json. The
// text lists skipped checks first, then each finding with its fix, and one line
// of summary if there is no error.
func Values(w io.Writer, output string, report validate.Report) error {
	if output == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	for _, skipped := range report.Skipped {
		_, _ = fmt.Fprintf(w, "skipped: %s\n", printer.Printable(skipped))
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, finding := range report.Findings {
		// Subjects and messages may quote the values file and responses of servers,
		// so they are made printable.
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", finding.Severity, finding.Code, printer.Printable(finding.Subject), printer.Printable(finding.Message))
		if finding.Fix != "" {
			_, _ = fmt.Fprintf(table, "\t\t\t→ %s\n", printer.Printable(finding.Fix))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	// With errors the caller prints the summary, as the error of the command.
	if report.OK() {
		how := ""
		if report.Mode != "" {
			how = ", reached by " + report.Mode
			if report.URL != "" {
				how += " at " + report.URL
			}
		}
		_, err := fmt.Fprintf(w, "The values are good for the runtime %s%s.\n", printer.Printable(report.Runtime), printer.Printable(how))
		return err
	}
	return nil
}

// Check prints one preflight check with its findings and their fixes, as soon
// as the check ends. The columns have a fixed width, because later checks are
// not known yet.
func Check(w io.Writer, result preflight.Result) {
	// A skipped check has a message instead of a summary.
	about := result.Looked
	if result.State == preflight.Skipped {
		about = result.Message
	}
	_, _ = fmt.Fprintf(w, "%-4s %-17s %-8s %s\n", result.Code, result.Name, result.State, printer.Printable(about))
	for _, finding := range result.Findings {
		_, _ = fmt.Fprintf(w, "       %s: %s: %s\n", finding.Severity, printer.Printable(finding.Subject), printer.Printable(finding.Message))
		if finding.Fix != "" {
			// A fix may have several lines, such as a manifest; all of them are
			// indented.
			_, _ = fmt.Fprintf(w, "         fix: %s\n", strings.ReplaceAll(printer.PrintableLines(strings.TrimRight(finding.Fix, "\n")), "\n", "\n           "))
		}
	}
}
