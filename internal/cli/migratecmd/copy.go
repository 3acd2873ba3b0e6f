package migratecmd

import (
	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/gitops/migrate"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/migration"
)

// copy copies the settings that the runtime lacks.
func (f *argocdFlags) copy(command *cobra.Command, cluster *kube.Cluster, report *migration.Report) error {
	for _, warning := range report.Warnings {
		printer.Note(command, "warning: %s", warning)
	}
	copies := report.Copies()
	for _, one := range copies {
		printer.Note(command, "%s %s", one.GetKind(), one.GetName())
	}
	if len(copies) == 0 || f.dryRun {
		printer.Note(command, "%s to copy. Nothing was changed.", finding.Count(len(copies), "object", "objects"))
		return nil
	}
	question := "Copy " + finding.Count(len(copies), "object", "objects") + " to the namespace " + f.to + "?"
	if err := prompt.New(command).Confirm(question, f.agreed); err != nil {
		return err
	}
	for _, one := range copies {
		write, err := migrate.Copy(command.Context(), cluster, one, f.to)
		if err != nil {
			return err
		}
		printer.Note(command, "%s %s: %s", write.Verb, write.Object, write.Why)
	}
	return nil
}
