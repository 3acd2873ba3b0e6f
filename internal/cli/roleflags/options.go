package roleflags

import (
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/observe"
)

// Sources returns where the options of a role come from: the command line, the
// environment and a file.
func Sources(args []string) config.Sources {
	environ := os.Environ()
	return config.Sources{Args: args, Switches: []string{"help", "print-config"}, Environ: environ, Dirs: config.SearchDirs(environ)}
}

// Begin does what the commands of all roles do once the options are loaded: it
// prints the help or the configuration where the command line asks for it, and
// validates. It returns false if the command is done. Nothing is opened before
// the options are valid, so a usage error never leaves anything behind.
func Begin(command *cobra.Command, loaded *config.Loaded, failed error, options interface {
	Validate() error
	YAML() ([]byte, error)
}) (bool, error) {
	// Help wins over errors of other options.
	if loaded.Given["help"] {
		return false, command.Help()
	}
	if failed != nil {
		return false, exit.UsageError{Err: failed}
	}
	// Loading checks that each value has its type; Validate checks ranges and
	// combinations.
	if err := options.Validate(); err != nil {
		return false, exit.UsageError{Err: err}
	}
	if !loaded.Given["print-config"] {
		return true, nil
	}
	// Printed after validation, so that the output is always a configuration
	// that the role accepts.
	text, err := options.YAML()
	if err == nil {
		_, err = command.OutOrStdout().Write(text)
	}
	return false, err
}

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
