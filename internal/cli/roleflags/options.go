package roleflags

import (
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/observe"
)

// Switches are the flags of a role's command that are not options of the role.
var Switches = []string{"help", "print-config"}

// LogStart logs the version, the configuration file, and every option that
// differs from its default. Secrets are redacted by config.Changes.
func LogStart(log *slog.Logger, role, file string, changes []config.Change) {
	facts := buildinfo.Read()
	log.Info(role+" starts", observe.KeyVersion, facts.Version, observe.KeyCommit, facts.Commit)
	if file != "" {
		log.Info("options come from a file", observe.KeyFile, file)
	}
	for _, change := range changes {
		log.Info("option is set", observe.KeyOption, change.Option, observe.KeyValue, change.Value)
	}
}

// Complete returns a completion function for the options of a role. Cobra
// cannot complete them, because it does not parse them.
func Complete(options func() []config.Option) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if strings.Contains(typed, "=") {
			return nil, cobra.ShellCompDirectiveDefault // a value, often a file
		}
		var found []cobra.Completion
		for _, option := range options() {
			// Named options, such as those of entry points, are completed with
			// an example name that the user edits.
			flag := strings.ReplaceAll(option.Flag(), "<name>", "web") + "="
			if strings.HasPrefix(strings.ToLower(flag), strings.ToLower(typed)) {
				sentence, _, _ := strings.Cut(option.Description, ". ")
				found = append(found, cobra.CompletionWithDesc(flag, sentence))
			}
		}
		return found, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
}
