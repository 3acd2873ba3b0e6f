package apiclient

import (
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// NoteTokenHelp prints where a Git token is created and what it needs; nothing
// if there is no help.
func NoteTokenHelp(command *cobra.Command, what string, help *platformv1.TokenHelp) {
	if help == nil {
		return
	}
	needs := strings.Join(help.GetNeeds(), ", ")
	if fine := help.GetFineGrained(); len(fine) > 0 {
		needs += " (fine-grained: " + strings.Join(fine, "; ") + ")"
	}
	if help.GetUsername() != "" {
		needs += ", and --username: " + help.GetUsername()
	}
	created := ""
	if help.GetPage() != "" {
		created = "is created at " + help.GetPage() + " and "
	}
	printer.Note(command, "%s. It %sneeds %s.", what, created, needs)
}
