package migratecmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/argosetting"
	"slipway.dev/slipway/internal/migration"
)

// print shows the report: every object with its effect, and below it what is not
// the same. The other forms have all fields.
func (f *argocdFlags) print(command *cobra.Command, report *migration.Report) error {
	if f.output.Form != printer.FormTable {
		return f.output.Encode(command.OutOrStdout(), report)
	}
	rows, flush := printer.NewTable(command.OutOrStdout())
	rows.Row("OBJECT", "EFFECT", "FIELD", "WHY")
	for _, object := range report.Objects {
		rows.Row(object.String(), string(object.Effect), "", summary(object))
		for _, field := range object.Fields {
			if field.Effect != argosetting.Same {
				rows.Row("", string(field.Effect), field.Name, field.Text)
			}
		}
		for _, obstacle := range object.Obstacles {
			rows.Row("", string(obstacle.Severity), "", obstacle.String())
		}
		if object.Proof != nil {
			proofRows(rows, object.Proof)
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if err := printDiffs(command.OutOrStdout(), report); err != nil {
		return err
	}
	f.printSummary(command, report)
	return nil
}

// summary describes the proof of an Application or an ApplicationSet in one line.
func summary(object *migration.Object) string {
	if object.Proof == nil || object.Proof.Failed != "" {
		return ""
	}
	if len(object.Proof.Revisions) == 0 {
		return finding.Count(len(object.Proof.Resources), "Application", "Applications") + " compared"
	}
	return fmt.Sprintf("%s rendered at %s, health %s", finding.Count(len(object.Proof.Resources), "resource", "resources"),
		shortened(object.Proof.Revisions), printer.OrDash(string(object.Proof.Health)))
}

// shortened joins revisions for display.
func shortened(revisions []string) string {
	var short []string
	for _, one := range revisions {
		short = append(short, printer.ShortRevision(one))
	}
	return strings.Join(short, ",")
}

// proofRows shows what a proof found.
func proofRows(rows printer.Table, proof *migration.Proof) {
	if proof.Failed != "" {
		rows.Row("", string(argosetting.Differs), "", "it could not be compared: "+proof.Failed)
	} else if proof.Health != proof.ArgoHealth && proof.ArgoHealth != "" {
		rows.Row("", string(argosetting.Differs), "", fmt.Sprintf("its health is %s; Argo CD reports %s", proof.Health, proof.ArgoHealth))
	}
	for _, resource := range proof.Resources {
		text := resource.Text
		if len(resource.SharedWith) > 0 {
			text = strings.TrimPrefix(text+"; shared with "+strings.Join(resource.SharedWith, ", "), "; ")
		}
		if resource.Effect != argosetting.Same || text != "" {
			rows.Row("", string(resource.Effect), resource.Name, text)
		}
	}
	for _, name := range proof.Orphaned {
		rows.Row("", "orphaned", name, "it has the mark of the Application, and Git does not have it: both leave it")
	}
	for _, warning := range proof.Warnings {
		rows.Row("", "warning", "", warning)
	}
}

// printDiffs shows what the first sync of each Application would change.
func printDiffs(out io.Writer, report *migration.Report) error {
	for _, object := range report.Applications() {
		if object.Proof == nil {
			continue
		}
		for _, resource := range object.Proof.Resources {
			if resource.Effect == argosetting.Same || resource.Diff == "" {
				continue
			}
			if _, err := fmt.Fprintf(out, "\n%s, %s:\n%s", printer.Printable(object.ID().String()), printer.Printable(resource.Name), printer.PrintableLines(resource.Diff)); err != nil {
				return err
			}
		}
	}
	return nil
}

// printSummary counts the objects, and the Applications that can be taken over.
func (f *argocdFlags) printSummary(command *cobra.Command, report *migration.Report) {
	for _, warning := range report.Warnings {
		printer.Note(command, "warning: %s", warning)
	}
	counts, apps, ready := report.Counts(), report.Applications(), 0
	for _, object := range apps {
		if object.Ready(f.force) {
			ready++
		}
	}
	printer.Note(command, "%s: %d the same, %d without effect in part, %d differ, %d refused. Applications that can be taken over: %d of %d.",
		finding.Count(len(report.Objects), "object", "objects"), counts[argosetting.Same], counts[argosetting.NoEffect],
		counts[argosetting.Differs], counts[argosetting.Refused], ready, len(apps))
}
