package accountcmd

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Audit returns the command slipway audit. Only admins may read the log, which
// the platform enforces.
func Audit() *cobra.Command {
	choice := &apiclient.Choice{}
	command := apiclient.GroupCommand("audit", "Read the audit log", choice, false)
	command.AddCommand(auditListCommand(choice), auditExportCommand(choice))
	return command
}

// auditListCommand returns the command that lists entries, the newest first.
// The default limit keeps a terminal usable; a note reports if there are more.
func auditListCommand(choice *apiclient.Choice) *cobra.Command {
	wanted := &auditFilter{}
	limit := 500
	command := &cobra.Command{
		Use:   "list",
		Short: "List entries of the audit log, the newest first",
		Example: `  slipway audit list --since 24h
  slipway audit list --since 2026-01-01T00:00:00Z --actor ada@example.com --action runtime.register -o json`,
		Args: cobra.NoArgs,
	}
	wanted.addFlags(command.Flags())
	command.Flags().IntVar(&limit, "limit", limit, "maximum number of entries; 0 means all")
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, _ []string) error {
		request, err := wanted.request(time.Now())
		if err != nil {
			return err
		}
		entries, more, err := client.AuditEntries(command.Context(), request, limit)
		if err != nil {
			return err
		}
		// On standard error, so that -o json stays a document.
		if more {
			printer.Note(command, "There are more: these are the newest %s. --limit 0 shows all.", fmt.Sprint(len(entries)))
		}
		return printer.Show(command, output, &platformv1.ListEntriesResponse{Entries: entries}, func(w io.Writer) error { return printAudit(w, entries) })
	})
	return command
}

// auditFilter holds the flags that select entries.
type auditFilter struct {
	since, until          string
	actor, action, target string
}

// addFlags adds the flags to a command.
func (f *auditFilter) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.since, "since", "", "only newer entries: a duration such as 24h or 7d, or an RFC 3339 time")
	flags.StringVar(&f.until, "until", "", "only older entries, in the format of --since")
	flags.StringVar(&f.actor, "actor", "", "only entries of this email, key or runtime")
	flags.StringVar(&f.action, "action", "", "only this action, such as runtime.register")
	flags.StringVar(&f.target, "target", "", "only entries about this object, such as application/argocd/shop")
}

// request returns the request of the flags. Bounds are resolved when the
// command runs: a duration is relative to now.
func (f *auditFilter) request(now time.Time) (*platformv1.ListEntriesRequest, error) {
	request := &platformv1.ListEntriesRequest{Actor: f.actor, Action: f.action, Target: f.target}
	var err error
	if request.Since, err = apiclient.Moment("since", f.since, now); err != nil {
		return nil, err
	}
	request.Until, err = apiclient.Moment("until", f.until, now)
	return request, err
}

// printAudit prints entries as a table, in the order of the platform.
func printAudit(w io.Writer, entries []*platformv1.AuditEntry) error {
	return printer.List(w, []string{"AT", "ACTOR", "KIND", "ACTION", "TARGET", "RUNTIME", "REVISION", "OUTCOME", "ADDRESS", "DETAIL"}, entries, func(one *platformv1.AuditEntry) []string {
		outcome := one.GetOutcome()
		if code := one.GetCode(); code != "" && code != outcome {
			outcome += " (" + code + ")"
		}
		return []string{printer.Timestamp(one.GetAt()), one.GetActor(), one.GetActorKind(), one.GetAction(), printer.OrDash(one.GetTarget()),
			printer.OrDash(one.GetRuntime()), printer.OrDash(one.GetRevision()), outcome, printer.OrDash(one.GetAddress()), one.GetDetail()}
	})
}
