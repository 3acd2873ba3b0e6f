package cli

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/config"
)

// docsCommand writes docs/reference. It is for make generate, so it is hidden.
func docsCommand() *cobra.Command {
	dir := ""
	command := &cobra.Command{
		Use:    "docs",
		Short:  "Write the reference of commands and options",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(command *cobra.Command, _ []string) error {
			return writeReference(command.Root(), dir)
		},
	}
	command.Flags().StringVar(&dir, "dir", "docs/reference", "directory to write to")
	return command
}

// writeReference writes one file per page. A test compares the committed pages
// with it.
func writeReference(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	pages := []struct{ name, text string }{
		{"cli.md", cliReference(root)},
		{"edge.md", edgeReference()},
		{"agent.md", agentReference()},
		{"platform.md", roleReference("platform", platformExamples, config.PlatformOptions())},
	}
	for _, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, page.name), []byte(page.text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
