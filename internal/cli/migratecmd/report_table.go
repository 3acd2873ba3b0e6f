package migratecmd

import (
	"fmt"
	"io"
	"strings"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/controller"
	"slipway.dev/slipway/internal/ingress/difference"
)

// writeReportTable prints the objects with their effects, and then the details of those
// that are not the same. Names and values come from a cluster, so they are escaped for the
// terminal.
func writeReportTable(w io.Writer, report *controller.MigrationReport) error {
	rows, flush := printer.NewTable(w)
	rows.Row("EFFECT", "OBJECT", "SOURCE", "CLASS", "DIFFERENCES", "REFUSALS", "FINDINGS")
	for _, object := range report.Objects {
		rows.Row(string(object.Effect), object.Object, printer.OrDash(string(object.Source)), printer.OrDash(object.Class),
			fmt.Sprint(len(object.Differences)+object.Omitted), fmt.Sprint(len(object.Refusals)), fmt.Sprint(len(object.Findings)))
	}
	if err := flush(); err != nil {
		return err
	}
	var out strings.Builder
	for _, object := range report.Objects {
		writeDetails(&out, object)
	}
	writeGeneral(&out, report.General)
	for _, found := range report.Findings {
		fmt.Fprintf(&out, "\n%s: %s\n", found.Severity, printer.Printable(found.String()))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// writeDetails prints what is not the same of an object, and its findings.
func writeDetails(out *strings.Builder, object *controller.ReportedObject) {
	if len(object.Differences)+len(object.Refusals)+len(object.Findings) == 0 {
		return
	}
	line := func(format string, args ...any) {
		fmt.Fprintf(out, "%s\n", printer.Printable(fmt.Sprintf(format, args...)))
	}
	out.WriteByte('\n')
	line("%s (%s)%s", object.Object, object.Effect, in(object.File))
	for _, refused := range object.Refusals {
		line("  refused  %s: %s", refused.Field, refused.Message)
	}
	for i := range object.Differences {
		d := &object.Differences[i]
		line("  differs  %s%s: %s", d.ID, accepted(d), strings.ReplaceAll(d.About, "`", ""))
		line("    %s", d.Request)
		line("    %s: %s", d.Side, d.ExpectedBefore)
		line("    %s: %s", difference.Slipway, d.ExpectedSlipway)
		if d.Advice != "" {
			line("    to do: %s", d.Advice)
		}
	}
	if object.Omitted > 0 {
		line("  %s handled otherwise, too", finding.Count(object.Omitted, "more request is", "more requests are"))
	}
	for _, found := range object.Findings {
		line("  %s  %s", found.Severity, found)
	}
}

func in(file string) string {
	if file == "" {
		return ""
	}
	return " in " + file
}

func accepted(d *controller.ReportedDifference) string {
	if d.Accepted {
		return " (accepted)"
	}
	return ""
}

// writeGeneral prints the differences of all objects of a source.
func writeGeneral(out *strings.Builder, general []controller.ReportedDifference) {
	if len(general) == 0 {
		return
	}
	out.WriteString("\nFor all objects:\n")
	for i := range general {
		d := &general[i]
		fmt.Fprintf(out, "  %s: %s. %s: %s. %s: %s.\n", d.ID, d.About, d.Side, plainText(d.Before), difference.Slipway, plainText(d.After))
	}
}

// plainText removes the marks of code, which are for pages.
func plainText(text string) string { return strings.ReplaceAll(text, "`", "") }
