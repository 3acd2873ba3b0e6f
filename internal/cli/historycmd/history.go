// Package historycmd has the command slipway history: what the platform keeps
// of deployments and traffic, and the figures that follow from them.
//
//	history   deployments and the four DORA figures
//	traffic   requests, errors and durations of a runtime's edges
//
// The commands only format responses: which rows the user may see, and how
// figures are computed, is decided by the platform, so that the console and the
// command line never differ. Notes about truncated results go to standard
// error, so that -o json and -o yaml stay one document.
package historycmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Command returns the command slipway history.
func Command() *cobra.Command {
	choice := &apiclient.Choice{}
	command := apiclient.GroupCommand("history", "Show past deployments, traffic and DORA figures", choice, false)
	command.AddCommand(deploymentsCommand(choice), trafficCommand(choice), doraCommand(choice))
	return command
}

// filter holds the flags that select deployments. They are kept as text until
// the command runs: durations are relative to that moment.
type filter struct {
	runtime, project, application string
	since, until                  string
}

// addFlags adds the flags to a command. since is the default of --since: a list
// needs no begin, because it is limited by number, but a rate does.
func (f *filter) addFlags(command *cobra.Command, choice *apiclient.Choice, since string) {
	f.addTo(command.Flags(), since)
	_ = command.RegisterFlagCompletionFunc("runtime", choice.CompleteRuntimes) // the flag is there
}

// addTo declares the flags; addFlags adds the completion.
func (f *filter) addTo(flags *pflag.FlagSet, since string) {
	flags.StringVar(&f.runtime, "runtime", "", "only this runtime")
	flags.StringVar(&f.project, "project", "", "only Applications of this project")
	flags.StringVar(&f.application, "app", "", "only this Application: a name, or namespace/name")
	flags.StringVar(&f.since, "since", since, "begin of the span: a duration such as 24h or 30d, or an RFC 3339 time")
	flags.StringVar(&f.until, "until", "", "end of the span, in the format of --since (default now)")
}

// message returns the filter of the flags. Durations are relative to now.
func (f *filter) message(now time.Time) (*platformv1.DeploymentFilter, error) {
	message := &platformv1.DeploymentFilter{Runtime: f.runtime, Project: f.project}
	message.Namespace, message.Name = splitApplication(f.application)
	var err error
	if message.Since, err = apiclient.Moment("since", f.since, now); err != nil {
		return nil, err
	}
	message.Until, err = apiclient.Moment("until", f.until, now)
	return message, err
}

// splitApplication returns namespace and name; the namespace is empty if only a
// name is given. An empty namespace matches all of them: most installations have
// their Applications in one.
func splitApplication(text string) (namespace, name string) {
	if namespace, name, found := strings.Cut(text, "/"); found {
		return namespace, name
	}
	return "", text
}

// deploymentsCommand returns the command that lists deployments. Its default
// limit fits a terminal; scripts ask for all with --limit 0.
func deploymentsCommand(choice *apiclient.Choice) *cobra.Command {
	wanted, limit := &filter{}, 100
	command := &cobra.Command{
		Use:   "deployments",
		Short: "List deployments, the newest first",
		Long: `Lists the syncs that changed the revision of an Application, or failed to, as the
runtimes reported them: also those of Applications and times that the clusters no
longer have.`,
		Example: `  slipway history deployments --since 7d
  slipway history deployments --app shop --limit 0 -o json`,
		Args: cobra.NoArgs,
	}
	wanted.addFlags(command, choice, "")
	command.Flags().IntVar(&limit, "limit", limit, "maximum number of deployments; 0 means all")
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, _ []string) error {
		selected, err := wanted.message(time.Now())
		if err != nil {
			return err
		}
		found, more, err := client.Deployments(command.Context(), selected, limit)
		if err != nil {
			return err
		}
		// On standard error, so that -o json stays a document.
		if more {
			printer.Note(command, "There are more: these are the newest %s. --limit 0 shows all.", fmt.Sprint(len(found)))
		}
		return printer.Show(command, output, &platformv1.ListDeploymentsResponse{Deployments: found}, func(w io.Writer) error { return printDeployments(w, found) })
	})
	return command
}

// printDeployments prints a table. The lead time is printed per deployment, so
// that the median of the figures can be traced to the commits behind it.
func printDeployments(w io.Writer, found []*platformv1.Deployment) error {
	return printer.List(w, []string{"FINISHED", "RUNTIME", "APPLICATION", "PROJECT", "REVISION", "RESULT", "TOOK", "LEAD TIME", "BY"}, found, func(one *platformv1.Deployment) []string {
		lead := "-"
		if one.GetCommittedAt() != nil {
			lead = length(one.GetFinishedAt().AsTime().Sub(one.GetCommittedAt().AsTime()))
		}
		// Automation is worth more than a name: no user started the sync.
		by := one.GetInitiator()
		if one.GetAutomated() {
			by = "automated"
		}
		return []string{
			printer.Timestamp(one.GetFinishedAt()), one.GetRuntime(), one.GetNamespace() + "/" + one.GetName(), one.GetProject(), printer.ShortRevision(one.GetRevision()),
			result(one), length(one.GetFinishedAt().AsTime().Sub(one.GetStartedAt().AsTime())), lead, printer.OrDash(by),
		}
	})
}

// result returns the result of a deployment in a word or two. A rollback that
// was itself rolled back is shown by what became of it.
func result(one *platformv1.Deployment) string {
	switch {
	case !one.GetSucceeded():
		return "failed"
	case one.GetRolledBackAt() != nil:
		return "rolled back"
	case one.GetRollback():
		return "rollback"
	}
	return "succeeded"
}

// groups are the values of --by. The total is in every response, and is all of
// it without a group.
func groups() map[string]platformv1.DoraGroup {
	return map[string]platformv1.DoraGroup{
		"total": platformv1.DoraGroup_DORA_GROUP_UNSPECIFIED, "application": platformv1.DoraGroup_DORA_GROUP_APPLICATION,
		"project": platformv1.DoraGroup_DORA_GROUP_PROJECT, "runtime": platformv1.DoraGroup_DORA_GROUP_RUNTIME,
	}
}

// doraCommand returns the command that shows the four figures. The span has a
// default, because all of them are rates or medians of a span.
func doraCommand(choice *apiclient.Choice) *cobra.Command {
	wanted, by := &filter{}, "application"
	command := &cobra.Command{
		Use:   "dora",
		Short: "Show deployment frequency, lead time, change failure rate and time to restore",
		Long: `Shows the four DORA figures of a span, in total and by Application, project or
runtime. docs/history.md has their exact definitions.`,
		Example: `  slipway history dora --since 90d
  slipway history dora --since 30d --by project -o json`,
		Args: cobra.NoArgs,
	}
	wanted.addFlags(command, choice, "30d")
	command.Flags().StringVar(&by, "by", by, "application, project, runtime or total")
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, _ []string) error {
		// Checked here and not by the platform: a typo costs no request.
		group, known := groups()[by]
		if !known {
			return exit.UsageError{Err: fmt.Errorf("--by: %q is not one of application, project, runtime, total", by)}
		}
		selected, err := wanted.message(time.Now())
		if err != nil {
			return err
		}
		response, err := apiclient.Call(command.Context(), client, client.History().GetDora, &platformv1.GetDoraRequest{Filter: selected, GroupBy: group})
		if err != nil {
			return err
		}
		if response.GetTruncated() {
			printer.Note(command, "There are too many deployments for one request: these figures begin at %s.", printer.Timestamp(response.GetSince()))
		}
		if more := response.GetGroupsLeftOut(); more > 0 {
			printer.Note(command, "%s groups with fewer deployments are not shown.", fmt.Sprint(more))
		}
		return printer.Show(command, output, response, func(w io.Writer) error { return printDora(w, response) })
	})
	return command
}

// printDora prints a table, with the total in its last row.
func printDora(w io.Writer, response *platformv1.GetDoraResponse) error {
	rows := append(response.GetGroups(), response.GetTotal())
	return printer.List(w, []string{"GROUP", "DEPLOYMENTS", "PER DAY", "LEAD TIME", "FAILED", "ROLLED BACK", "FAILURE RATE", "TIME TO RESTORE", "OPEN"}, rows, func(one *platformv1.Dora) []string {
		return []string{
			groupName(one), fmt.Sprint(one.GetDeployments()), fmt.Sprintf("%.2f", one.GetDeploymentsPerDay()), optional(one.GetLeadTime()),
			fmt.Sprint(one.GetFailed()), fmt.Sprint(one.GetRolledBack()), fmt.Sprintf("%.1f%%", 100*one.GetChangeFailureRate()),
			optional(one.GetTimeToRestore()), fmt.Sprint(one.GetOpenFailures()),
		}
	})
}

// groupName returns what the figures are of. Applications of different runtimes
// may have the same name, so the runtime is part of it.
func groupName(one *platformv1.Dora) string {
	switch {
	case one.GetName() != "":
		return one.GetRuntime() + ": " + one.GetNamespace() + "/" + one.GetName()
	case one.GetProject() != "":
		return one.GetProject()
	case one.GetRuntime() != "":
		return one.GetRuntime()
	}
	return "total"
}

// optional formats a duration that may be absent.
func optional(d *durationpb.Duration) string {
	if d == nil {
		return "-"
	}
	return length(d.AsDuration())
}

// length formats a duration with its two largest units: figures range from
// seconds to weeks, and more digits than that are noise. A negative one, by
// clocks that differ, is zero.
func length(d time.Duration) string {
	const day = 24 * time.Hour
	d = max(d, 0)
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
