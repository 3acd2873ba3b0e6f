package cli

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/config"
)

// docsCommand returns the hidden command slipway docs, which writes
// docs/reference for make generate, or completions and man pages for make
// release. It walks the same command tree that serves users, so the pages
// cannot drift from the help.
func docsCommand() *cobra.Command {
	dir, extras := "", ""
	command := &cobra.Command{
		Use:    "docs",
		Short:  "Write the reference of commands and options",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if extras != "" {
				return writeExtras(command.Root(), extras)
			}
			return writeReference(command.Root(), dir)
		},
	}
	command.Flags().StringVar(&dir, "dir", "docs/reference", "directory to write to")
	command.Flags().StringVar(&extras, "extras", "", "directory for completions and man pages, which are written instead")
	return command
}

// writeReference writes one file per page below dir and overwrites pages that
// exist. It stops at the first error and may leave earlier pages written: make
// generate then fails and is run again. A test compares the committed pages
// with its output.
func writeReference(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	pages := []struct{ name, text string }{
		{"cli.md", cliReference(root)},
		{"edge.md", roleReference("edge", edgeExamples, config.EdgeOptions())},
		{"agent.md", roleReference("agent", agentExamples, config.AgentOptions())},
		{"platform.md", roleReference("platform", platformExamples, config.PlatformOptions())},
		{"rights.md", rightsReference()},
		{"metrics.md", metricsReference()},
	}
	for _, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, page.name), []byte(page.text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
