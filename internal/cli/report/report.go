// Package report prints what checks have found: the validation of a chart's
// values, and preflight checks.
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

// Values prints a validation report as text, or as JSON if output is json.
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
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", finding.Severity, finding.Code, printer.Printable(finding.Key), printer.Printable(finding.Reason))
		if finding.Fix != "" {
			_, _ = fmt.Fprintf(table, "\t\t\t→ %s\n", printer.Printable(finding.Fix))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
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

// Check prints one preflight check with its findings and their fixes.
func Check(w io.Writer, result preflight.Result) {
	about := result.Looked
	if result.State == preflight.Skipped {
		about = result.Reason
	}
	_, _ = fmt.Fprintf(w, "%-4s %-17s %-8s %s\n", result.Code, result.Name, result.State, printer.Printable(about))
	for _, finding := range result.Findings {
		_, _ = fmt.Fprintf(w, "       %s: %s: %s\n", finding.Severity, printer.Printable(finding.Subject), printer.Printable(finding.Message))
		if finding.Fix != "" {
			_, _ = fmt.Fprintf(w, "         fix: %s\n", strings.ReplaceAll(printer.PrintableLines(strings.TrimRight(finding.Fix, "\n")), "\n", "\n           "))
		}
	}
}
