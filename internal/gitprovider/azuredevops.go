package gitprovider

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// AzureDevOps is Azure DevOps Services and Server. Only a [Listing] and
// [PullRequests] use it, as with [Gitea]. The owner in queries is "organization/project".
const AzureDevOps Kind = "azure-devops"

// azureAPI is the server, and azureVersion the version of the API, which Azure
// DevOps Server has since 2022.
const (
	azureAPI     = "https://dev.azure.com"
	azureVersion = "7.0"
	azurePage    = 100
	// azureNext is the field of a header with the token of the next page.
	azureNext = "X-Ms-Continuationtoken"
)

// azurePath is a path of the API of a project's repositories.
func azurePath(owner string, segments ...string) string {
	organization, project, _ := strings.Cut(owner, "/")
	return path(append([]string{organization, project, "_apis", "git", "repositories"}, segments...)...)
}

// azurePages reads a list. Pull requests have numbers of elements, and others a
// token of the next page.
func azurePages[T any](ctx context.Context, c *client, at string, query url.Values) (all []T, err error) {
	type envelope struct {
		Value []T `json:"value"`
	}
	query.Set("api-version", azureVersion)
	first := call{method: http.MethodGet, path: at, query: query}
	err = readPages(ctx, c, first, func(page envelope, header http.Header, call *call) bool {
		all = append(all, page.Value...)
		call.query = maps.Clone(query)
		if next := header.Get(azureNext); next != "" {
			call.query.Set("continuationToken", next)
			return true
		}
		call.query.Set("$skip", strconv.Itoa(len(all)))
		return query.Has("$top") && len(page.Value) == azurePage
	})
	return all, err
}

// branchOf is the name of a branch without its prefix.
func branchOf(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// azurePulls lists the open pull requests of a repository.
func (l *Listing) azurePulls(ctx context.Context, query PullRequestQuery) ([]PullRequest, error) {
	found, err := azurePages[azurePull](ctx, l.client, azurePath(query.Owner, query.Repository, "pullrequests"),
		url.Values{"searchCriteria.status": {"active"}, "$top": {strconv.Itoa(azurePage)}})
	return converted(found, err, func(p azurePull) PullRequest {
		author, _, _ := strings.Cut(p.Author.Name, "@")
		return PullRequest{
			Number: p.ID, Title: p.Title, Branch: branchOf(p.Source), TargetBranch: branchOf(p.Target), HeadSHA: p.Commit.ID, Labels: names(p.Labels), Author: author, Fork: p.Fork != nil,
		}
	})
}

// azureRepositories lists the repositories of a project, without those that are
// disabled.
func (l *Listing) azureRepositories(ctx context.Context, query RepositoryQuery) ([]ListedRepository, error) {
	type repository struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		HTTPS    string `json:"remoteUrl"`
		SSH      string `json:"sshUrl"`
		Branch   string `json:"defaultBranch"`
		Disabled bool   `json:"isDisabled"`
	}
	found, err := azurePages[repository](ctx, l.client, azurePath(query.Owner), url.Values{})
	organization, _, _ := strings.Cut(query.Owner, "/")
	return converted(found, err, func(r repository) ListedRepository {
		if r.Disabled {
			r.Branch = "" // as without a commit
		}
		return ListedRepository{
			Organization: organization, Name: r.Name, ID: r.ID, HTTPS: withoutUser(r.HTTPS), SSH: r.SSH, Branch: branchOf(r.Branch), key: []string{query.Owner, r.ID},
		}
	})
}

// azureBranches returns a repository at its default branch, or at all.
func (l *Listing) azureBranches(ctx context.Context, of ListedRepository, all bool) (found []ListedRepository, err error) {
	type ref struct {
		Name string `json:"name"`
		SHA  string `json:"objectId"`
	}
	filter := "heads/"
	if !all {
		filter += of.Branch
	}
	refs, err := azurePages[ref](ctx, l.client, azurePath(of.key[0], of.key[1], "refs"), url.Values{"filter": {filter}})
	for _, one := range refs {
		// The filter is the beginning of a name.
		if branch := branchOf(one.Name); all || branch == of.Branch {
			made := of
			made.Branch, made.SHA = branch, one.SHA
			found = append(found, made)
		}
	}
	return found, err
}
