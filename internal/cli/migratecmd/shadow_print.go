package migratecmd

import (
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/shadow"
)

// print writes the report in the form of --output.
func (f *shadowFlags) print(command *cobra.Command, report *shadow.Report) error {
	out := command.OutOrStdout()
	switch f.output.Form {
	case printer.FormTable:
		return printShadow(out, report)
	case formHTML:
		return shadowPage.Execute(out, report)
	}
	return f.output.Encode(out, report)
}

// printShadow writes the groups as tables, and below them the counts.
func printShadow(out io.Writer, report *shadow.Report) error {
	header := []string{"CAUSE", "HOST", "ROUTE", "COUNT", "EXAMPLE", "OLD", "NEW"}
	row := func(group *shadow.Group) []string {
		return []string{
			group.Cause.String(), group.Host, group.Route, strconv.FormatInt(group.Count, 10), group.Example.Method + " " + group.Example.URL,
			printer.OrDash(group.Example.Old), printer.OrDash(group.Example.New),
		}
	}
	if len(report.Groups) > 0 {
		if err := printer.List(out, header, report.Groups, row); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	if len(report.UnstableGroups) > 0 {
		fmt.Fprintln(out, "Unstable: the old controller differs from itself in these parts, so they cannot be compared.")
		if err := printer.List(out, header, report.UnstableGroups, row); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "Compared: %d. The same: %d, different: %d, unstable: %d, different only once: %d.\n",
		report.Compared, report.Same, report.Different, report.Unstable, report.Transient)
	if report.Failed > 0 {
		fmt.Fprintf(out, "Neither controller responded to %d.\n", report.Failed)
	}
	if report.Omitted > 0 {
		fmt.Fprintf(out, "Differences of further groups: %d.\n", report.Omitted)
	}
	for _, reason := range slices.Sorted(maps.Keys(report.SkippedBy)) {
		fmt.Fprintf(out, "Skipped: %d, because %s.\n", report.SkippedBy[reason], reason)
	}
	return nil
}

// shadowPage is the report as one page without scripts and without other files. All values
// come from clients and backends; the template escapes them.
var shadowPage = template.Must(template.New("shadow").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Comparison of responses</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid #ccc; overflow-wrap: anywhere; }
td.number, th.number { text-align: right; }
code { font-size: .9em; }
</style>
</head>
<body>
<h1>Comparison of responses</h1>
<p>{{.Started.Format "2006-01-02 15:04:05"}} to {{.Ended.Format "2006-01-02 15:04:05"}} UTC.
Old: {{range .Old}}<code>{{.}}</code> {{end}} New: {{range .New}}<code>{{.}}</code> {{end}}</p>
<table>
<tr><th class="number">Compared</th><th class="number">The same</th><th class="number">Different</th><th class="number">Unstable</th><th class="number">Different only once</th><th class="number">Skipped</th></tr>
<tr><td class="number">{{.Compared}}</td><td class="number">{{.Same}}</td><td class="number">{{.Different}}</td><td class="number">{{.Unstable}}</td><td class="number">{{.Transient}}</td><td class="number">{{.Skipped}}</td></tr>
</table>
<h2>Differences</h2>
{{if .Groups}}{{template "groups" .Groups}}{{else}}<p>None.</p>{{end}}
{{if .Omitted}}<p>Differences of further groups: {{.Omitted}}.</p>{{end}}
{{if .UnstableGroups}}<h2>Unstable</h2>
<p>The old controller differs from itself in these parts, so they cannot be compared.</p>
{{template "groups" .UnstableGroups}}{{end}}
{{if .SkippedBy}}<h2>Skipped</h2>
<table>
{{range $reason, $count := .SkippedBy}}<tr><td class="number">{{$count}}</td><td>{{$reason}}</td></tr>
{{end}}</table>{{end}}
</body>
</html>
{{define "groups"}}<table>
<tr><th>Cause</th><th>Host</th><th>Route</th><th class="number">Count</th><th>Example</th><th>Old</th><th>New</th></tr>
{{range .}}<tr><td>{{.Cause}}</td><td>{{.Host}}</td><td>{{.Route}}</td><td class="number">{{.Count}}</td>
<td><details><summary><code>{{.Example.Method}} {{.Example.URL}}</code></summary>{{range $name, $value := .Example.Headers}}<code>{{$name}}: {{$value}}</code><br>{{end}}</details></td>
<td><code>{{.Example.Old}}</code></td><td><code>{{.Example.New}}</code></td></tr>
{{end}}</table>{{end}}`))
