package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// currentPlatform reports whether a platform is asked when nobody says so.
func currentPlatform() (bool, error) {
	if os.Getenv(urlVariable) != "" {
		return true, nil
	}
	book, err := readContexts()
	if err != nil {
		return false, usageError{fmt.Errorf("%w (--direct asks the cluster)", err)}
	}
	return book.Current != "", nil
}

// named is the runtime that was named for this command.
func (p *platformChoice) named() string { return cmp.Or(p.runtime, os.Getenv(runtimeVariable)) }

// lister lists the Applications of a cluster, or of the runtime that was named.
func (a *appAccess) lister(through bool) (appBackend, error) {
	if !through {
		return a.open()
	}
	client, err := a.platform.open()
	if err != nil {
		return nil, err
	}
	if err := wire.RuntimeName(a.platform.named()); err != nil {
		return nil, usageError{err}
	}
	return newRemoteApps(client, a.platform.named(), a.namespace), nil
}

// openRemote connects to the runtime that has an Application.
func (a *appAccess) openRemote(ctx context.Context, name string) (appBackend, tracking.App, error) {
	place, err := applicationPlace(a.namespace, name)
	if err != nil {
		return nil, place, err
	}
	client, err := a.platform.open()
	if err != nil {
		return nil, place, err
	}
	runtime := a.platform.named()
	if runtime == "" {
		if runtime, err = client.locate(ctx, &place); err != nil {
			client.close()
			return nil, place, err
		}
	}
	if err := wire.RuntimeName(runtime); err != nil {
		return nil, place, usageError{err}
	}
	return newRemoteApps(client, runtime, place.Namespace), place, nil
}

// locate finds the runtime that has an Application, and its namespace if that was
// not named.
func (c *platformClient) locate(ctx context.Context, place *tracking.App) (string, error) {
	found, err := c.reported(ctx, &platformv1.ListApplicationsRequest{Query: place.Name, Namespace: place.Namespace})
	if err != nil {
		return "", err
	}
	found = slices.DeleteFunc(found, func(one *platformv1.Application) bool { return one.GetName() != place.Name })
	if own := slices.DeleteFunc(slices.Clone(found), func(one *platformv1.Application) bool { return one.GetRuntime() != c.Runtime }); len(own) > 0 {
		found = own // the default decides among several
	}
	switch {
	case len(found) == 1:
		place.Namespace = found[0].GetNamespace()
		return found[0].GetRuntime(), nil
	case len(found) == 0 && c.Runtime != "":
		return c.Runtime, nil // it may be too new to be reported
	case len(found) == 0:
		return "", fmt.Errorf("no runtime has told of an Application %s: slipway app list shows those that are known; name the runtime with --runtime if it is new", place.Name)
	}
	var choices []string
	for _, one := range found {
		choices = append(choices, fmt.Sprintf("%s/%s --runtime %s", one.GetNamespace(), one.GetName(), one.GetRuntime()))
	}
	return "", usageError{fmt.Errorf("there are %d Applications %s: write one of %s", len(choices), place.Name, printable(shortList(choices)))}
}

// reported are all Applications that the platform knows of.
func (c *platformClient) reported(ctx context.Context, wanted *platformv1.ListApplicationsRequest) ([]*platformv1.Application, error) {
	return everyPage(func(page string) ([]*platformv1.Application, string, error) {
		wanted.PageSize, wanted.PageToken = pageSize, page
		answer, err := ask(ctx, c, c.applications().ListApplications, wanted)
		return answer.GetApplications(), answer.GetNextPageToken(), err
	})
}

// listEverywhere lists what all runtimes have reported.
func (a *appAccess) listEverywhere(command *cobra.Command, selector string, output *outputFlag) error {
	labels, err := equalLabels(selector)
	if err != nil {
		return usageError{err}
	}
	client, err := a.platform.open()
	if err != nil {
		return err
	}
	defer client.close()
	found, err := client.reported(command.Context(), &platformv1.ListApplicationsRequest{Namespace: a.namespace, Labels: labels})
	if err != nil {
		return err
	}
	out := command.OutOrStdout()
	if output.form == outputName {
		for _, one := range found {
			if _, err := fmt.Fprintln(out, printable(one.GetRuntime()+"/"+one.GetNamespace()+"/"+one.GetName())); err != nil {
				return err
			}
		}
		return nil
	}
	if len(found) == 0 {
		note(command, "No runtime has told of such Applications.")
	}
	return showMessage(command, output, &platformv1.ListApplicationsResponse{Applications: found, Total: int32(len(found))}, func(w io.Writer) error {
		return printReported(w, found, output.form == outputWide)
	})
}

// equalLabels takes a selector apart that says key=value only.
func equalLabels(selector string) ([]string, error) {
	var labels []string
	for _, part := range strings.Split(selector, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		key, value, ok := strings.Cut(strings.Replace(part, "==", "=", 1), "=")
		if !ok || key == "" || strings.ContainsAny(key, "!( ") {
			return nil, errors.New("over all runtimes --selector takes key=value only: name one with --runtime for other selectors")
		}
		labels = append(labels, key+"="+value)
	}
	return labels, nil
}

func printReported(w io.Writer, found []*platformv1.Application, wide bool) error {
	if len(found) == 0 {
		return nil
	}
	rows, flush := newTable(w)
	header := []string{"RUNTIME", "NAMESPACE", "NAME", "PROJECT", "SYNC", "HEALTH", "REVISION", "OPERATION"}
	if wide {
		header = append(header, "CLUSTER", "DESTINATION", "SEEN", "SOURCE")
	}
	rows.row(header...)
	for _, one := range found {
		health := orNone(one.GetHealth())
		if one.GetStale() {
			health += " (old)"
		}
		row := []string{
			one.GetRuntime(), one.GetNamespace(), one.GetName(), orNone(one.GetProject()), orNone(one.GetSync()), health,
			orNone(shortRevision(one.GetRevision())), orNone(one.GetOperationPhase()),
		}
		if wide {
			source := strings.Join(one.GetRepoUrls(), "; ")
			if one.GetPath() != "" {
				source += " path " + one.GetPath()
			}
			row = append(row, orNone(one.GetCluster()), orNone(one.GetDestinationNamespace()), shownStamp(one.GetSeenAt()), orNone(source))
		}
		rows.row(row...)
	}
	return flush()
}
