package appcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// currentPlatform reports whether requests go to a platform if no flag chooses:
// if the environment names one, or a context is current. An unreadable list of
// contexts is an error and no fallback to the cluster, which might be another
// one.
func currentPlatform() (bool, error) {
	if os.Getenv(apiclient.UrlVariable) != "" {
		return true, nil
	}
	book, err := apiclient.ReadContexts()
	if err != nil {
		return false, exit.UsageError{Err: fmt.Errorf("%w (--direct reads from the cluster)", err)}
	}
	return book.Current != "", nil
}

// lister returns the backend that lists one cluster, or the named runtime. The
// caller has made sure that a runtime is named.
func (a *appAccess) lister(through bool) (appBackend, error) {
	if !through {
		return a.open()
	}
	if err := wire.RuntimeName(a.platform.NamedRuntime()); err != nil {
		return nil, exit.UsageError{Err: err}
	}
	client, err := a.platform.Open()
	if err != nil {
		return nil, err
	}
	return newRemoteApps(client, a.platform.NamedRuntime(), a.namespace), nil
}

// openRemote opens the runtime that has an Application. Without --runtime the
// platform's reports find it, and fill in the namespace of a bare name.
func (a *appAccess) openRemote(ctx context.Context, name string) (appBackend, tracking.App, error) {
	place, err := applicationPlace(a.namespace, name)
	if err != nil {
		return nil, place, err
	}
	client, err := a.platform.Open()
	if err != nil {
		return nil, place, err
	}
	runtime := a.platform.NamedRuntime()
	// Neither flag nor environment names a runtime: the reports of all runtimes
	// are searched.
	if runtime == "" {
		if runtime, err = client.LocateApplication(ctx, &place); err != nil {
			client.Close()
			return nil, place, err
		}
	}
	// The name becomes part of a URL path, and may come from the environment or
	// a report.
	if err := wire.RuntimeName(runtime); err != nil {
		client.Close()
		return nil, place, exit.UsageError{Err: err}
	}
	return newRemoteApps(client, runtime, place.Namespace), place, nil
}

// listEverywhere lists the Applications of all runtimes as they were reported.
// Reports of an offline runtime are marked as old. The name form has the
// runtime in front, because names are unique per runtime only.
func (a *appAccess) listEverywhere(command *cobra.Command, selector string, output *printer.Output) error {
	labels, err := equalLabels(selector)
	if err != nil {
		return exit.UsageError{Err: err}
	}
	client, err := a.platform.Open()
	if err != nil {
		return err
	}
	defer client.Close()
	found, err := client.ReportedApplications(command.Context(), &platformv1.ListApplicationsRequest{Namespace: a.namespace, Labels: labels})
	if err != nil {
		return err
	}
	out := command.OutOrStdout()
	if output.Form == printer.FormName {
		for _, one := range found {
			if _, err := fmt.Fprintln(out, printer.Printable(one.GetRuntime()+"/"+one.GetNamespace()+"/"+one.GetName())); err != nil {
				return err
			}
		}
		return nil
	}
	if len(found) == 0 {
		printer.Note(command, "No runtime has reported such Applications.")
	}
	return printer.Show(command, output, &platformv1.ListApplicationsResponse{Applications: found, Total: int32(len(found))}, func(w io.Writer) error {
		return printReported(w, found, output.Form == printer.FormWide)
	})
}

// equalLabels parses a selector of key=value pairs. The platform's reports can
// match only these; a runtime itself can match all selectors. An operator such
// as != or in is refused and never taken for a value.
func equalLabels(selector string) ([]string, error) {
	var labels []string
	for _, part := range strings.Split(selector, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		// Kubernetes accepts == for =; the platform has one form.
		key, value, ok := strings.Cut(strings.Replace(part, "==", "=", 1), "=")
		if !ok || key == "" || strings.ContainsAny(key, "!( ") {
			return nil, errors.New("over all runtimes --selector takes key=value only: name one with --runtime for other selectors")
		}
		labels = append(labels, key+"="+value)
	}
	return labels, nil
}

// printReported prints reported Applications as a table. Wide adds the cluster,
// the destination, the time of the report and the sources.
func printReported(w io.Writer, found []*platformv1.Application, wide bool) error {
	if len(found) == 0 {
		return nil
	}
	rows, flush := printer.NewTable(w)
	header := []string{"RUNTIME", "NAMESPACE", "NAME", "PROJECT", "SYNC", "HEALTH", "REVISION", "OPERATION"}
	if wide {
		header = append(header, "CLUSTER", "DESTINATION", "SEEN", "SOURCE")
	}
	rows.Row(header...)
	for _, one := range found {
		// A stale report shows the last health before the runtime went offline.
		health := printer.OrDash(one.GetHealth())
		if one.GetStale() {
			health += " (old)"
		}
		row := []string{
			one.GetRuntime(), one.GetNamespace(), one.GetName(), printer.OrDash(one.GetProject()), printer.OrDash(one.GetSync()), health,
			printer.OrDash(printer.ShortRevision(one.GetRevision())), printer.OrDash(one.GetOperationPhase()),
		}
		if wide {
			source := strings.Join(one.GetRepoUrls(), "; ")
			if one.GetPath() != "" {
				source += " path " + one.GetPath()
			}
			row = append(row, printer.OrDash(one.GetCluster()), printer.OrDash(one.GetDestinationNamespace()), printer.Timestamp(one.GetSeenAt()), printer.OrDash(source))
		}
		rows.Row(row...)
	}
	return flush()
}
