package migratecmd

import (
	_ "embed"
	"html/template"
	"io"
	"slices"

	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/controller"
	"slipway.dev/slipway/internal/ingress/difference"
)

// reportPage is the page of a report. It has no scripts and loads nothing.
//
//go:embed report.html
var reportPage string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"plain": plainText, "slipway": func() string { return difference.Slipway },
}).Parse(reportPage))

// writeHTMLFile writes the report as a page. It has names of hosts and Services, so only
// its owner can read it.
func writeHTMLFile(path string, report *controller.MigrationReport) error {
	return files.WritePrivate(path, func(w io.Writer) error { return writeHTML(w, report) })
}

// writeHTML writes the page. The template escapes everything that comes from objects.
func writeHTML(w io.Writer, report *controller.MigrationReport) error {
	same := slices.IndexFunc(report.Objects, func(o *controller.ReportedObject) bool { return o.Effect == controller.EffectSame })
	changed, unchanged := report.Objects, []*controller.ReportedObject(nil)
	if same >= 0 {
		changed, unchanged = report.Objects[:same], report.Objects[same:]
	}
	return reportTemplate.Execute(w, struct {
		*controller.MigrationReport
		Changed, Unchanged []*controller.ReportedObject
	}{report, changed, unchanged})
}
