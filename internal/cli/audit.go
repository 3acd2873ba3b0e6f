package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// auditCommand is `slipway audit`.
func auditCommand() *cobra.Command {
	choice := &platformChoice{}
	command := platformGroup("audit", "Read who did what", choice, false)
	command.AddCommand(auditListCommand(choice))
	return command
}

func auditListCommand(choice *platformChoice) *cobra.Command {
	wanted := &platformv1.ListEntriesRequest{}
	var since, until string
	limit := 500
	command := &cobra.Command{
		Use:   "list",
		Short: "List entries of the audit log, the newest first",
		Example: `  slipway audit list --since 24h
  slipway audit list --since 2026-01-01T00:00:00Z --actor ada@example.com --action runtime.register -o json`,
		Args: cobra.NoArgs,
	}
	flags := command.Flags()
	flags.StringVar(&since, "since", "", "only newer ones: a length of time such as 24h or 7d, or a time in the form of RFC 3339")
	flags.StringVar(&until, "until", "", "only older ones, as --since")
	flags.StringVar(&wanted.Actor, "actor", "", "only those of this email, key or runtime")
	flags.StringVar(&wanted.Action, "action", "", "only this action, such as runtime.register")
	flags.StringVar(&wanted.Target, "target", "", "only those on this object")
	flags.IntVar(&limit, "limit", limit, "at most so many; 0 is all")
	output := newOutputFlag(command, outputJSON, outputYAML)
	command.RunE = withPlatform(choice, output, func(command *cobra.Command, client *platformClient, _ []string) error {
		var err error
		if wanted.Since, err = moment("since", since, time.Now()); err != nil {
			return err
		}
		if wanted.Until, err = moment("until", until, time.Now()); err != nil {
			return err
		}
		entries, more, err := client.auditEntries(command.Context(), wanted, limit)
		if err != nil {
			return err
		}
		if more {
			note(command, "There are more: these are the newest %s. --limit 0 shows all.", fmt.Sprint(len(entries)))
		}
		return showMessage(command, output, &platformv1.ListEntriesResponse{Entries: entries}, func(w io.Writer) error { return printAudit(w, entries) })
	})
	return command
}

// errEnough ends a list early.
var errEnough = errors.New("that is enough")

// auditEntries collects entries up to a limit; 0 is all.
func (c *platformClient) auditEntries(ctx context.Context, wanted *platformv1.ListEntriesRequest, limit int) ([]*platformv1.AuditEntry, bool, error) {
	var entries []*platformv1.AuditEntry
	more := false
	_, err := everyPage(func(page string) ([]*platformv1.AuditEntry, string, error) {
		wanted.PageSize, wanted.PageToken = pageSize, page
		answer, err := ask(ctx, c, c.audit().ListEntries, wanted)
		entries = append(entries, answer.GetEntries()...)
		if err == nil && limit > 0 && len(entries) >= limit {
			more = len(entries) > limit || answer.GetNextPageToken() != ""
			entries = entries[:limit]
			return nil, "", errEnough
		}
		return nil, answer.GetNextPageToken(), err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return entries, more, err
}

// moment reads a time, or a length of time before now.
func moment(flag, text string, now time.Time) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return timestamppb.New(at), nil
	}
	var before lifetime
	if err := before.Set(text); err != nil {
		return nil, usageError{fmt.Errorf("--%s: %q is neither a length of time such as 24h or 7d nor a time such as 2026-01-02T15:04:05Z", flag, text)}
	}
	return timestamppb.New(now.Add(-time.Duration(before))), nil
}

func printAudit(w io.Writer, entries []*platformv1.AuditEntry) error {
	rows, flush := newTable(w)
	rows.row("AT", "ACTOR", "KIND", "ACTION", "TARGET", "OUTCOME", "ADDRESS", "DETAIL")
	for _, one := range entries {
		rows.row(shownStamp(one.GetAt()), one.GetActor(), one.GetActorKind(), one.GetAction(), orNone(one.GetTarget()),
			one.GetOutcome(), orNone(one.GetAddress()), one.GetDetail())
	}
	return flush()
}
