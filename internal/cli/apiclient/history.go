package apiclient

import (
	"context"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// Deployments returns the newest deployments that match, at most limit of them;
// 0 means all. It reports whether there are more.
func (c *Client) Deployments(ctx context.Context, filter *platformv1.DeploymentFilter, limit int) (found []*platformv1.Deployment, more bool, err error) {
	// Pages may be empty before the end, if the user may see few of the rows, so
	// only the token decides whether to continue.
	request := &platformv1.ListDeploymentsRequest{Filter: filter, PageSize: PageSize}
	_, err = AllPages(func(page string) ([]*platformv1.Deployment, string, error) {
		request.PageToken = page
		response, err := Call(ctx, c, c.History().ListDeployments, request)
		if err != nil {
			return nil, "", err
		}
		found = append(found, response.GetDeployments()...)
		if limit > 0 && len(found) >= limit {
			more = len(found) > limit || response.GetNextPageToken() != ""
			found = found[:limit]
			return nil, "", nil
		}
		return nil, response.GetNextPageToken(), nil
	})
	return found, more, err
}
