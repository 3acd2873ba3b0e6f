package accountcmd

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	// followInterval is how often --follow requests new entries.
	followInterval = 2 * time.Second
	// followOverlap is how far --follow looks back: replicas write entries
	// concurrently, and their clocks may differ.
	followOverlap = time.Minute
	// followRetries is how many requests in a row may fail, as while a platform
	// restarts. Entries of that time come afterwards.
	followRetries = 60
)

// auditExportCommand returns the command that writes entries as JSON lines, the
// oldest first.
func auditExportCommand(choice *apiclient.Choice) *cobra.Command {
	wanted := &auditFilter{}
	follow := false
	command := &cobra.Command{
		Use:   "export",
		Short: "Write entries of the audit log as JSON lines, the oldest first",
		Long: `Writes one JSON object per line on standard output, the oldest entry first. With
--follow it goes on with new entries until it is interrupted. The fields are those
of slipway audit list -o json.`,
		Example: `  slipway audit export --since 30d > audit.jsonl
  slipway audit export --since 1h --follow | my-collector`,
		Args: cobra.NoArgs,
	}
	wanted.addFlags(command.Flags())
	command.Flags().BoolVar(&follow, "follow", false, "go on with new entries")
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, _ []string) error {
		request, err := wanted.request(time.Now())
		if err != nil {
			return err
		}
		request.OldestFirst = true
		export := auditExport{encoder: json.NewEncoder(command.OutOrStdout()), seen: map[string]time.Time{}}
		if !follow {
			return client.EachAuditEntry(command.Context(), request, export.encode)
		}
		return export.follow(command, client, request)
	})
	return command
}

// auditExport writes entries as lines.
type auditExport struct {
	encoder *json.Encoder
	// seen has the entries of the overlap, newest is the time of the last one.
	seen   map[string]time.Time
	newest time.Time
}

func (e *auditExport) encode(entry *platformv1.AuditEntry) error {
	value, err := printer.ProtoValue(entry)
	if err != nil {
		return err
	}
	return e.encoder.Encode(value)
}

// encodeOnce writes an entry unless it was written before.
func (e *auditExport) encodeOnce(entry *platformv1.AuditEntry) error {
	if _, ok := e.seen[entry.GetId()]; ok {
		return nil
	}
	at := entry.GetAt().AsTime()
	e.seen[entry.GetId()] = at
	if at.After(e.newest) {
		e.newest = at
	}
	return e.encode(entry)
}

// follow requests entries until the command is interrupted. The first request
// must succeed, so that a wrong key or address is an error at once.
func (e *auditExport) follow(command *cobra.Command, client *apiclient.Client, request *platformv1.ListEntriesRequest) error {
	ctx := command.Context()
	failures, reached := 0, false
	for backoff.Sleep(ctx, followInterval) == nil {
		err := client.EachAuditEntry(ctx, request, e.encodeOnce)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			failures, reached = 0, true
			e.advance(request)
			continue
		}
		if failures++; !reached || failures > followRetries {
			return err
		}
		if failures == 1 {
			printer.Note(command, "Retrying: %s", err.Error())
		}
	}
	return nil
}

// advance moves the beginning of the request to the overlap.
func (e *auditExport) advance(request *platformv1.ListEntriesRequest) {
	since := e.newest.Add(-followOverlap)
	if e.newest.IsZero() || request.GetSince() != nil && !since.After(request.GetSince().AsTime()) {
		return
	}
	request.Since = timestamppb.New(since)
	for id, at := range e.seen {
		if at.Before(since) {
			delete(e.seen, id)
		}
	}
}
