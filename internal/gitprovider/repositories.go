package gitprovider

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// ListedRepository is a repository of an owner, at one of its branches.
type ListedRepository struct {
	Organization string
	Name         string
	ID           string
	// HTTPS and SSH are the addresses to clone from.
	HTTPS, SSH string
	Branch     string
	SHA        string
	Labels     []string

	// key is the repository in the paths of the API.
	key []string
}

// RepositoryQuery selects repositories.
type RepositoryQuery struct {
	// Owner is the organization, group, workspace or project.
	Owner string
	// Archived includes archived repositories. At GitLab it asks for archived ones, and
	// without it for all that GitLab lists, as Argo CD does.
	Archived bool
	// Subgroups and Shared are options of GitLab's groups, and Topic selects.
	Subgroups, Shared bool
	Topic             string
	// AllBranches lists every branch; otherwise the default one.
	AllBranches bool
	// Fits is called before the branches of a repository are read; nil takes all.
	Fits func(ListedRepository) bool
}

// Repositories lists the repositories of an owner with their branches. One
// without a commit is left out.
func (l *Listing) Repositories(ctx context.Context, query RepositoryQuery) ([]ListedRepository, error) {
	var all []ListedRepository
	var err error
	switch l.client.kind {
	case GitHub:
		all, err = l.gitHubRepositories(ctx, query, url.Values{"per_page": {"100"}})
	case Gitea:
		all, err = l.giteaRepositories(ctx, query)
	case GitLab:
		all, err = l.gitLabRepositories(ctx, query)
	case Bitbucket:
		all, err = l.bitbucketRepositories(ctx, query)
	case BitbucketServer:
		all, err = l.bitbucketServerRepositories(ctx, query)
	case AzureDevOps:
		all, err = l.azureRepositories(ctx, query)
	default:
		return nil, invalid(l.client.kind, "%s does not list repositories", l.client.kind.Title())
	}
	if err != nil {
		return nil, err
	}
	var found []ListedRepository
	for _, one := range all {
		if query.Fits != nil && !query.Fits(one) {
			continue
		}
		branches, err := l.branches(ctx, one, query.AllBranches)
		if failure, isFailure := errors.AsType[*Error](err); isFailure && failure.Kind == NotFound {
			continue // it has no commit
		}
		if err != nil {
			return nil, err
		}
		found = append(found, branches...)
	}
	return found, nil
}

// gitHubRepositories lists the repositories of an organization of GitHub, or of
// Gitea, whose API follows it.
func (l *Listing) gitHubRepositories(ctx context.Context, query RepositoryQuery, values url.Values) ([]ListedRepository, error) {
	type repository struct {
		gitHubRepository
		ID     int64    `json:"id"`
		Name   string   `json:"name"`
		Topics []string `json:"topics"`
	}
	found, err := linkPages[repository](ctx, l.client, call{method: http.MethodGet, path: path("orgs", query.Owner, "repos"), query: values})
	var kept []repository
	for _, one := range found {
		if query.Archived || !one.Archived {
			kept = append(kept, one)
		}
	}
	return converted(kept, err, func(r repository) ListedRepository {
		https := r.CloneURL
		if l.client.kind == Gitea {
			https = cmp.Or(r.HTMLURL, r.CloneURL)
		}
		return ListedRepository{
			Organization: query.Owner, Name: r.Name, ID: strconv.FormatInt(r.ID, 10), HTTPS: https, SSH: r.SSHURL, Branch: r.DefaultBranch, Labels: r.Topics,
			key: []string{"repos", query.Owner, r.Name},
		}
	})
}

// giteaRepositories lists the repositories of an organization of Gitea. As in Argo
// CD, their address is that of their page, and their labels are those of issues,
// which need a request for each.
func (l *Listing) giteaRepositories(ctx context.Context, query RepositoryQuery) ([]ListedRepository, error) {
	values := url.Values{"limit": {"50"}}
	all, err := l.gitHubRepositories(ctx, query, values)
	if err != nil {
		return nil, err
	}
	for i := range all {
		labels, err := linkPages[label](ctx, l.client, call{method: http.MethodGet, path: path(append(all[i].key, "labels")...), query: values})
		if failure, isFailure := errors.AsType[*Error](err); err != nil && (!isFailure || failure.Kind != NotFound) {
			return nil, err
		}
		all[i].Labels = names(labels)
	}
	return all, nil
}

// gitLabRepositories lists the projects of a group.
func (l *Listing) gitLabRepositories(ctx context.Context, query RepositoryQuery) ([]ListedRepository, error) {
	type repository struct {
		ID        int64    `json:"id"`
		Path      string   `json:"path"`
		HTTPS     string   `json:"http_url_to_repo"`
		SSH       string   `json:"ssh_url_to_repo"`
		Branch    string   `json:"default_branch"`
		Topics    []string `json:"topics"`
		TagList   []string `json:"tag_list"` // the topics before GitLab 14.5
		Namespace struct {
			FullPath string `json:"full_path"`
		} `json:"namespace"`
	}
	values := url.Values{
		"per_page": {"100"}, "include_subgroups": {strconv.FormatBool(query.Subgroups)}, "with_shared": {strconv.FormatBool(query.Shared)},
	}
	if query.Topic != "" {
		values.Set("topic", query.Topic)
	}
	if query.Archived {
		values.Set("archived", "true")
	}
	found, err := linkPages[repository](ctx, l.client, call{method: http.MethodGet, path: path("groups", query.Owner, "projects"), query: values})
	return converted(found, err, func(r repository) ListedRepository {
		id := strconv.FormatInt(r.ID, 10)
		if len(r.Topics) == 0 {
			r.Topics = r.TagList
		}
		return ListedRepository{
			Organization: cmp.Or(r.Namespace.FullPath, query.Owner), Name: r.Path, ID: id, HTTPS: r.HTTPS, SSH: r.SSH, Branch: r.Branch, Labels: r.Topics,
			key: []string{"projects", id, "repository"},
		}
	})
}

// cloneLink is an address to clone from at Bitbucket.
type cloneLink struct {
	Name string `json:"name"`
	Href string `json:"href"`
}

// cloneAddresses returns the HTTPS and SSH addresses of links.
func cloneAddresses(links []cloneLink) (https, ssh string) {
	for _, link := range links {
		switch link.Name {
		case "http", "https":
			https = withoutUser(link.Href)
		case "ssh":
			ssh = link.Href
		}
	}
	return https, ssh
}

// bitbucketRepositories lists the repositories of a workspace.
func (l *Listing) bitbucketRepositories(ctx context.Context, query RepositoryQuery) ([]ListedRepository, error) {
	type repository struct {
		UUID       string `json:"uuid"`
		Slug       string `json:"slug"`
		MainBranch struct {
			Name string `json:"name"`
		} `json:"mainbranch"`
		Links struct {
			Clone []cloneLink `json:"clone"`
		} `json:"links"`
	}
	found, err := nextPages[repository](ctx, l.client, call{method: http.MethodGet, path: path("repositories", query.Owner), query: url.Values{"pagelen": {"100"}}})
	return converted(found, err, func(r repository) ListedRepository {
		https, ssh := cloneAddresses(r.Links.Clone)
		return ListedRepository{
			Organization: query.Owner, Name: r.Slug, ID: strings.Trim(r.UUID, "{}"), HTTPS: https, SSH: ssh, Branch: r.MainBranch.Name,
			key: []string{"repositories", query.Owner, r.Slug, "refs"},
		}
	})
}

// bitbucketServerRepositories lists the repositories of a project.
func (l *Listing) bitbucketServerRepositories(ctx context.Context, query RepositoryQuery) ([]ListedRepository, error) {
	type repository struct {
		ID    int64  `json:"id"`
		Slug  string `json:"slug"`
		Name  string `json:"name"`
		Links struct {
			Clone []cloneLink `json:"clone"`
		} `json:"links"`
	}
	found, err := serverPages[repository](ctx, l.client, call{
		method: http.MethodGet, path: bitbucketREST + path("projects", query.Owner, "repos"), query: url.Values{"limit": {"100"}},
	})
	return converted(found, err, func(r repository) ListedRepository {
		https, ssh := cloneAddresses(r.Links.Clone)
		return ListedRepository{
			// The slug is the name in paths. Argo CD gives the other one.
			Organization: query.Owner, Name: cmp.Or(r.Name, r.Slug), ID: strconv.FormatInt(r.ID, 10), HTTPS: https, SSH: ssh,
			key: []string{"projects", query.Owner, "repos", r.Slug},
		}
	})
}

// listedBranch is a branch of any provider: each has its own names of the fields.
type listedBranch struct {
	Name      string `json:"name"`
	DisplayID string `json:"displayId"`    // Bitbucket Server
	Latest    string `json:"latestCommit"` // Bitbucket Server
	Commit    struct {
		SHA string `json:"sha"` // GitHub
		ID  string `json:"id"`  // GitLab, Gitea
	} `json:"commit"`
	Target struct {
		Hash string `json:"hash"` // Bitbucket Cloud
	} `json:"target"`
}

// branches returns a repository at its default branch, or at all.
func (l *Listing) branches(ctx context.Context, of ListedRepository, all bool) ([]ListedRepository, error) {
	if of.Branch == "" && l.client.kind != BitbucketServer {
		return nil, nil
	}
	if l.client.kind == AzureDevOps {
		return l.azureBranches(ctx, of, all)
	}
	base := path(append(of.key, "branches")...)
	if l.client.kind == BitbucketServer {
		base = bitbucketREST + base
	}
	var found []listedBranch
	var err error
	if all {
		found, err = l.allBranches(ctx, base)
	} else {
		one := base + path(of.Branch)
		if l.client.kind == BitbucketServer {
			one = bitbucketREST + path(append(of.key, "default-branch")...)
		}
		found = make([]listedBranch, 1)
		_, err = l.client.do(ctx, call{method: http.MethodGet, path: one, into: &found[0]})
		if err == nil && l.client.kind == BitbucketServer {
			found, err = l.serverBranch(ctx, base, found[0].DisplayID)
		}
	}
	return converted(found, err, func(b listedBranch) ListedRepository {
		made := of
		made.Branch = cmp.Or(b.DisplayID, b.Name, of.Branch)
		made.SHA = cmp.Or(b.Commit.SHA, b.Commit.ID, b.Target.Hash, b.Latest)
		return made
	})
}

// allBranches lists the branches of a repository.
func (l *Listing) allBranches(ctx context.Context, base string) ([]listedBranch, error) {
	first := call{method: http.MethodGet, path: base}
	switch l.client.kind {
	case Bitbucket:
		first.query = url.Values{"pagelen": {"100"}}
		return nextPages[listedBranch](ctx, l.client, first)
	case BitbucketServer:
		first.query = url.Values{"limit": {"100"}}
		return serverPages[listedBranch](ctx, l.client, first)
	case Gitea:
		first.query = url.Values{"limit": {"50"}}
	default:
		first.query = url.Values{"per_page": {"100"}}
	}
	return linkPages[listedBranch](ctx, l.client, first)
}

// serverBranch finds a branch of Bitbucket Server: the default one is returned
// without its commit by older versions.
func (l *Listing) serverBranch(ctx context.Context, base, name string) ([]listedBranch, error) {
	found, err := serverPages[listedBranch](ctx, l.client, call{
		method: http.MethodGet, path: base, query: url.Values{"limit": {"100"}, "filterText": {name}},
	})
	for _, one := range found {
		if one.DisplayID == name {
			return []listedBranch{one}, err
		}
	}
	return nil, err
}
