package appset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/generate"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/secret"
)

// hostRepository is a repository at the API of a Git host, and how to list it.
type hostRepository struct {
	options gitprovider.Options
	query   gitprovider.PullRequestQuery
	// path is that of the repository in its address, below the host.
	path string
	// token and authorities are where the credential and the certificates are;
	// nil for none.
	token       *v1alpha1.SecretRef
	authorities *v1alpha1.ConfigMapRef
	// app is a Secret with a GitHub App, whose token comes in the place of another.
	app string
}

// azurePath is below which the repositories of a project of Azure DevOps are. Names
// of projects have spaces.
func azurePath(organization, project string) string {
	return organization + "/" + url.PathEscape(project) + "/_git"
}

// hostOf converts a generator. The API has checked that it has one host.
func hostOf(g *v1alpha1.PullRequestGenerator) *hostRepository {
	made := &hostRepository{}
	set := func(kind gitprovider.Kind, api, owner, repository string, token *v1alpha1.SecretRef) {
		made.options.Kind, made.options.APIURL, made.token = kind, api, token
		made.query.Owner, made.query.Repository = owner, repository
		made.path = strings.TrimPrefix(owner+"/"+repository, "/")
	}
	switch {
	case g.GitHub != nil:
		set(gitprovider.GitHub, g.GitHub.API, g.GitHub.Owner, g.GitHub.Repo, g.GitHub.TokenRef)
		made.query.Labels, made.app = g.GitHub.Labels, g.GitHub.AppSecretName
	case g.GitLab != nil:
		set(gitprovider.GitLab, g.GitLab.API, "", g.GitLab.Project, g.GitLab.TokenRef)
		made.query.Labels, made.query.State, made.authorities = g.GitLab.Labels, g.GitLab.PullRequestState, g.GitLab.CARef
	case g.Gitea != nil:
		set(gitprovider.Gitea, g.Gitea.API, g.Gitea.Owner, g.Gitea.Repo, g.Gitea.TokenRef)
		made.query.Labels = g.Gitea.Labels
	case g.BitbucketServer != nil:
		at := g.BitbucketServer
		set(gitprovider.BitbucketServer, at.API, at.Project, at.Repo, made.login(at.BasicAuth, at.BearerToken))
		made.path, made.authorities = "scm/"+made.path, at.CARef
	case g.Bitbucket != nil:
		at := g.Bitbucket
		set(gitprovider.Bitbucket, at.API, at.Owner, at.Repo, made.login(at.BasicAuth, at.BearerToken))
	case g.AzureDevOps != nil:
		at := g.AzureDevOps
		set(gitprovider.AzureDevOps, at.API, at.Organization+"/"+at.Project, at.Repo, at.TokenRef)
		made.query.Labels, made.path = at.Labels, azurePath(at.Organization, at.Project)+"/"+url.PathEscape(at.Repo)
	default:
		return nil
	}
	return made
}

// PullRequests lists the pull requests of a repository that the project allows.
// The project is asked about the address of the repository before the token is
// read, and the token is sent to that host alone: a tenant who names another API
// gets nothing.
func (f *ClusterFacts) PullRequests(ctx context.Context, g *v1alpha1.PullRequestGenerator) ([]generate.PullRequest, error) {
	at := hostOf(g)
	if at == nil {
		return nil, errors.New("it names no Git host: write github, gitlab, gitea, bitbucket, bitbucketServer or azuredevops")
	}
	listing, err := f.listing(ctx, at)
	if err != nil {
		return nil, err
	}
	found, err := listing.PullRequests(ctx, at.query)
	f.pause(listing, at, err)
	if failure, isFailure := errors.AsType[*gitprovider.Error](err); isFailure && failure.Kind == gitprovider.NotFound && g.ContinueOnRepoNotFoundError {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	requests := make([]generate.PullRequest, len(found))
	for i, one := range found {
		requests[i] = generate.PullRequest(one)
	}
	return requests, nil
}

// CommentPullRequest writes a comment. The project and the token are checked as for
// a list.
func (f *ClusterFacts) CommentPullRequest(ctx context.Context, g *v1alpha1.PullRequestGenerator, comment PullRequestComment) error {
	at := hostOf(g)
	if at == nil || at.token == nil && at.app == "" {
		return errors.New("the generator has no token, which comments need")
	}
	listing, err := f.listing(ctx, at)
	if err != nil {
		return err
	}
	at.options.Repository = listing.Server() + "/" + at.path
	pulls, err := gitprovider.NewPullRequests(at.options)
	if err != nil {
		return err
	}
	write := pulls.Comment
	if comment.Known {
		write = pulls.ChangeComment
	}
	err = write(ctx, comment.Number, comment.Key, comment.Text)
	f.pause(listing, at, err)
	return err
}

// listing returns a client of the host.
func (f *ClusterFacts) listing(ctx context.Context, at *hostRepository) (*gitprovider.Listing, error) {
	// As for repositories, the project decides about http://.
	at.options.Outbound, at.options.PlainHTTP, at.options.Responses = f.Outbound, true, f.Responses
	// The address of a client without the token decides.
	checked, err := gitprovider.NewListing(at.options)
	if err != nil {
		return nil, err
	}
	if err := f.admit(checked.Server() + "/" + at.path); err != nil {
		return nil, err
	}
	if until, paused := f.Pauses.get(f.pauseKey(checked, at)); paused {
		return nil, fmt.Errorf("%s allows no more requests until %s", checked.Origin(), until.UTC().Format(time.RFC3339))
	}
	if at.token != nil {
		if at.options.Token, err = f.secretKey(ctx, at.token.SecretName, at.token.Key); err != nil {
			return nil, err
		}
	}
	if at.app != "" {
		if at.options.Token, err = f.appToken(ctx, at.app); err != nil {
			return nil, err
		}
	}
	if at.authorities != nil {
		data, err := f.configMap(ctx, f.SetNamespace, at.authorities.ConfigMapName)
		if err != nil {
			return nil, err
		}
		at.options.CAs = []byte(data[at.authorities.Key])
	}
	return gitprovider.NewListing(at.options)
}

// pauseKey names an API and the credential, because providers count requests by
// it: a token without requests left does not stop the sets of others.
func (f *ClusterFacts) pauseKey(listing *gitprovider.Listing, at *hostRepository) string {
	key := listing.Origin() + " " + f.SetNamespace
	if at.token != nil {
		key += "/" + at.token.SecretName
	}
	if at.app != "" {
		key += "/" + at.app
	}
	return key
}

// repositoriesOf converts a generator of repositories.
func repositoriesOf(g *v1alpha1.SCMProviderGenerator) (*hostRepository, gitprovider.RepositoryQuery) {
	made, query := &hostRepository{}, gitprovider.RepositoryQuery{}
	set := func(kind gitprovider.Kind, api, owner string, token *v1alpha1.SecretRef, all bool) {
		made.options.Kind, made.options.APIURL, made.token, made.path = kind, api, token, owner
		query.Owner, query.AllBranches = owner, all
	}
	switch {
	case g.GitHub != nil:
		at := g.GitHub
		set(gitprovider.GitHub, at.API, at.Organization, at.TokenRef, at.AllBranches)
		query.Archived, made.app = !at.ExcludeArchivedRepos, at.AppSecretName
	case g.GitLab != nil:
		at := g.GitLab
		set(gitprovider.GitLab, at.API, at.Group, at.TokenRef, at.AllBranches)
		query.Archived, query.Subgroups, query.Topic, made.authorities = at.IncludeArchivedRepos, at.IncludeSubgroups, at.Topic, at.CARef
		query.Shared = at.IncludeSharedProjects == nil || *at.IncludeSharedProjects
	case g.Gitea != nil:
		at := g.Gitea
		set(gitprovider.Gitea, at.API, at.Owner, at.TokenRef, at.AllBranches)
		query.Archived = !at.ExcludeArchivedRepos
	case g.Bitbucket != nil:
		at := g.Bitbucket
		set(gitprovider.Bitbucket, "", at.Owner, at.AppPasswordRef, at.AllBranches)
		made.options.Username = at.User
	case g.BitbucketServer != nil:
		at := g.BitbucketServer
		set(gitprovider.BitbucketServer, at.API, at.Project, made.login(at.BasicAuth, at.BearerToken), at.AllBranches)
		made.path, made.authorities = "scm/"+made.path, at.CARef
	case g.AzureDevOps != nil:
		at := g.AzureDevOps
		set(gitprovider.AzureDevOps, at.API, at.Organization+"/"+at.TeamProject, at.AccessTokenRef, at.AllBranches)
		made.path = azurePath(at.Organization, at.TeamProject)
	default:
		return nil, query
	}
	return made, query
}

// Repositories lists the repositories of an owner that the project allows, in
// the same way. The project has to allow repositories of the owner at all, and
// each of those that it does not allow is left out.
func (f *ClusterFacts) Repositories(ctx context.Context, g *v1alpha1.SCMProviderGenerator) ([]generate.Repository, error) {
	at, query := repositoriesOf(g)
	if at == nil {
		return nil, errors.New("it names no Git host: write github, gitlab, gitea, bitbucket, bitbucketServer or azureDevOps")
	}
	fits, err := generate.RepositoryFilter(g.Filters)
	if err != nil {
		return nil, err
	}
	// A name as good as any: rules for single repositories are not enough.
	at.path += "/any"
	listing, err := f.listing(ctx, at)
	if err != nil {
		return nil, err
	}
	address := func(one gitprovider.ListedRepository) string {
		// As in Argo CD, the protocol makes no difference at Azure DevOps.
		if g.CloneProtocol == "https" || g.AzureDevOps != nil {
			return one.HTTPS
		}
		return one.SSH
	}
	query.Fits = func(one gitprovider.ListedRepository) bool {
		return fits(one.Name, one.Labels) && f.admit(address(one)) == nil
	}
	found, err := listing.Repositories(ctx, query)
	f.pause(listing, at, err)
	if err != nil {
		return nil, err
	}
	repositories := make([]generate.Repository, len(found))
	for i, one := range found {
		repositories[i] = generate.Repository{
			Organization: one.Organization, Name: one.Name, ID: one.ID, URL: address(one), Branch: one.Branch, SHA: one.SHA, Labels: one.Labels,
		}
	}
	return repositories, nil
}

// pause notes that a host allows no more requests.
func (f *ClusterFacts) pause(listing *gitprovider.Listing, at *hostRepository, err error) {
	if failure, isFailure := errors.AsType[*gitprovider.Error](err); isFailure && failure.Kind == gitprovider.RateLimited {
		f.Pauses.set(f.pauseKey(listing, at), failure.Until)
	}
}

// login returns where the credential for Bitbucket is.
func (h *hostRepository) login(basic *v1alpha1.BasicAuth, bearer *v1alpha1.BearerToken) *v1alpha1.SecretRef {
	switch {
	case bearer != nil:
		return bearer.TokenRef
	case basic != nil:
		h.options.Username = basic.Username
		return basic.PasswordRef
	}
	return nil
}

// admit reports whether the project allows an address, as that of a source.
func (f *ClusterFacts) admit(address string) error {
	if f.limits == nil {
		return errors.New("no project allows the repository")
	}
	_, err := f.limits.Admit(v1alpha1.ApplicationSource{RepoURL: address, Path: "."})
	return err
}

// secretKey returns a value of a Secret in the namespace of the set. Sets of
// several tenants can be in the control namespace, beside Secrets of the runtime:
// there a project with limits reads Secrets with its own name in the field
// project, as those of repositories have it.
func (f *ClusterFacts) secretKey(ctx context.Context, name, key string) (secret.Text, error) {
	data, err := f.secretData(ctx, name)
	if err != nil {
		return secret.Text{}, err
	}
	value := strings.TrimSpace(string(data[key]))
	if value == "" {
		return secret.Text{}, fmt.Errorf("the Secret %s has no key %s", name, key)
	}
	return secret.New(value), nil
}

// appTokens requests tokens of GitHub Apps, as [source.Sources] does.
type appTokens interface {
	WithAppToken(ctx context.Context, access remote.Access) (remote.Access, error)
}

// appToken returns a token of the installation of a GitHub App. Its Secret has the
// fields that a repository's has.
func (f *ClusterFacts) appToken(ctx context.Context, name string) (secret.Text, error) {
	tokens, ok := f.Sources.(appTokens)
	if !ok {
		return secret.Text{}, errors.New("GitHub Apps are not supported here")
	}
	data, err := f.secretData(ctx, name)
	if err != nil {
		return secret.Text{}, err
	}
	app, err := credential.ParseApp(&corev1.Secret{Data: data})
	if err != nil {
		return secret.Text{}, fmt.Errorf("the Secret %s: %w", name, err)
	}
	if app.IsZero() {
		return secret.Text{}, fmt.Errorf("the Secret %s has no GitHub App: write githubAppID, githubAppInstallationID and githubAppPrivateKey", name)
	}
	access, err := tokens.WithAppToken(ctx, remote.Access{Credential: credential.Credential{App: app}, Outbound: f.Outbound})
	return access.Credential.Password, err
}

// secretData returns the content of a Secret that the project may use.
func (f *ClusterFacts) secretData(ctx context.Context, name string) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return nil, fmt.Errorf("%.100q is no name of a Secret: %s", name, strings.Join(problems, "; "))
	}
	list, err := f.Cluster.Client.CoreV1().Secrets(f.SetNamespace).List(ctx, kube.Named(name))
	if err != nil {
		return nil, fmt.Errorf("the Secret %s of namespace %s cannot be read: %w", name, f.SetNamespace, err)
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("there is no Secret %s in namespace %s: create it", name, f.SetNamespace)
	}
	data := list.Items[0].Data
	if f.SetNamespace == f.Namespace && f.limits != nil && !f.limits.IsUnlimited() && string(data["project"]) != f.limits.Name() {
		return nil, fmt.Errorf("the Secret %s is not for project %s: write project: %s into it", name, f.limits.Name(), f.limits.Name())
	}
	return data, nil
}

// configMap returns the data of a ConfigMap.
func (f *ClusterFacts) configMap(ctx context.Context, namespace, name string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := f.Cluster.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("the ConfigMap %s of namespace %s cannot be read: %w", name, cmp.Or(namespace, "default"), err)
	}
	return found.Data, nil
}

// maxPauses bounds Pauses. Forgetting them costs requests that are refused.
const maxPauses = 1000

// Pauses has the APIs that allow no more requests for a while. It is safe for
// concurrent use; nil has none.
type Pauses struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// set notes until when an API allows no requests.
func (p *Pauses) set(origin string, until time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil || len(p.until) >= maxPauses {
		p.until = map[string]time.Time{}
	}
	p.until[origin] = until
}

// get reports until when an API allows no requests, if that is so.
func (p *Pauses) get(origin string) (time.Time, bool) {
	if p == nil {
		return time.Time{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	until, known := p.until[origin]
	if known && time.Now().After(until) {
		delete(p.until, origin)
		known = false
	}
	return until, known
}
