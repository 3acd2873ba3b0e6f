package apiclient

import (
	"context"
	"fmt"
	"slices"

	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// LocateApplication finds the runtime that has an Application, and fills in the
// namespace of place if that was not given. Among several runtimes the default
// one of the context wins. An Application that no runtime has reported yet is
// looked for in the default runtime, because it may be too new for a report.
// Several matches are a usage error that lists them.
func (c *Client) LocateApplication(ctx context.Context, place *tracking.App) (string, error) {
	found, err := c.ReportedApplications(ctx, &platformv1.ListApplicationsRequest{Query: place.Name, Namespace: place.Namespace})
	if err != nil {
		return "", err
	}
	// The query of the API matches parts of names; only the exact name counts.
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
		return "", fmt.Errorf("no runtime has reported an Application %s: slipway app list shows those that are known; name the runtime with --runtime if it is new", place.Name)
	}
	var choices []string
	for _, one := range found {
		choices = append(choices, fmt.Sprintf("%s/%s --runtime %s", one.GetNamespace(), one.GetName(), one.GetRuntime()))
	}
	return "", exit.UsageError{Err: fmt.Errorf("there are %d Applications %s: write one of %s", len(choices), place.Name, printer.Printable(printer.ShortList(choices)))}
}

// ReportedApplications returns all Applications that runtimes have reported to
// the platform and that match the request. It sets the paging fields of wanted.
func (c *Client) ReportedApplications(ctx context.Context, wanted *platformv1.ListApplicationsRequest) ([]*platformv1.Application, error) {
	return AllPages(func(page string) ([]*platformv1.Application, string, error) {
		wanted.PageSize, wanted.PageToken = PageSize, page
		response, err := Call(ctx, c, c.applications().ListApplications, wanted)
		return response.GetApplications(), response.GetNextPageToken(), err
	})
}

// CheckAccess returns whether the user has a right on an Application, and why.
func (c *Client) CheckAccess(ctx context.Context, wanted *platformv1.CheckAccessRequest) (*platformv1.CheckAccessResponse, error) {
	return Call(ctx, c, c.applications().CheckAccess, wanted)
}
