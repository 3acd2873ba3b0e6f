package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
)

// versionCommand returns the command slipway version. It needs no cluster and
// no platform.
func versionCommand() *cobra.Command {
	output := "text"
	command := &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return printVersion(command.OutOrStdout(), output)
		},
	}
	command.Flags().StringVar(&output, "output", output, "output format: text or json")
	return command
}

// printVersion prints the build information as text, or as JSON for scripts. An
// unknown format is a usage error.
func printVersion(w io.Writer, output string) error {
	facts := buildinfo.Read()
	switch output {
	case "text":
		_, err := fmt.Fprintf(w, "slipway %s\ncommit %s\n%s\n%s\n", facts.Version, facts.Commit, facts.GoVersion, facts.Platform)
		return err
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(facts)
	}
	return exit.UsageError{Err: fmt.Errorf("--output %q is neither text nor json", output)}
}
