package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PullRequestGenerator gives one set of parameters for each open pull request.
type PullRequestGenerator struct {
	GitHub                      *PullRequestGitHub          `json:"github,omitzero" description:"A repository of GitHub or GitHub Enterprise."`
	GitLab                      *PullRequestGitLab          `json:"gitlab,omitzero" description:"A project of GitLab."`
	Gitea                       *PullRequestGitea           `json:"gitea,omitzero" description:"A repository of Gitea."`
	BitbucketServer             *PullRequestBitbucketServer `json:"bitbucketServer,omitzero" description:"A repository of Bitbucket Server or Data Center."`
	Bitbucket                   *PullRequestBitbucket       `json:"bitbucket,omitzero" description:"A repository of Bitbucket Cloud."`
	AzureDevOps                 *PullRequestAzureDevOps     `json:"azuredevops,omitzero" description:"A repository of Azure DevOps."`
	Filters                     []PullRequestFilter         `json:"filters,omitzero" description:"Filters, one of which must match. Defaults to all pull requests."`
	Values                      map[string]string           `json:"values,omitzero" description:"Additional parameters, under values."`
	RequeueAfterSeconds         *int64                      `json:"requeueAfterSeconds,omitzero" description:"Interval in seconds at which the Git host is polled. Defaults to 30 minutes."`
	ContinueOnRepoNotFoundError bool                        `json:"continueOnRepoNotFoundError,omitzero" description:"Generates nothing for a repository that does not exist, instead of an error."`
	Template                    *ApplicationSetTemplate     `json:"template,omitzero" free:"true" description:"Overrides the template of the ApplicationSet."`
}

// PullRequestFilter selects pull requests by regular expressions, all of which
// must match.
type PullRequestFilter struct {
	BranchMatch       *string `json:"branchMatch,omitzero" description:"Regular expression of the source branch."`
	TargetBranchMatch *string `json:"targetBranchMatch,omitzero" description:"Regular expression of the target branch."`
	TitleMatch        *string `json:"titleMatch,omitzero" description:"Regular expression of the title."`
}

// PullRequestGitHub is a repository of GitHub.
type PullRequestGitHub struct {
	Owner         string     `json:"owner" required:"true" description:"Organization or user."`
	Repo          string     `json:"repo" required:"true" description:"Name of the repository."`
	API           string     `json:"api,omitzero" description:"URL of GitHub Enterprise. Defaults to GitHub."`
	TokenRef      *SecretRef `json:"tokenRef,omitzero" description:"Secret with the access token. Defaults to none, for public repositories."`
	AppSecretName string     `json:"appSecretName,omitzero" description:"Secret with a GitHub App, with the fields of a repository: githubAppID, githubAppInstallationID and githubAppPrivateKey."`
	Labels        []string   `json:"labels,omitzero" description:"Labels that a pull request must have."`
}

// PullRequestGitLab is a project of GitLab.
type PullRequestGitLab struct {
	Project          string        `json:"project" required:"true" description:"ID or path of the project."`
	API              string        `json:"api,omitzero" description:"URL of the server. Defaults to gitlab.com."`
	TokenRef         *SecretRef    `json:"tokenRef,omitzero" description:"Secret with the access token. Defaults to none, for public projects."`
	Labels           []string      `json:"labels,omitzero" description:"Labels that a merge request must have."`
	PullRequestState string        `json:"pullRequestState,omitzero" enum:",opened,closed,merged,locked" description:"State of the merge requests. Defaults to all."`
	Insecure         bool          `json:"insecure,omitzero" description:"Must not be true: use caRef."`
	CARef            *ConfigMapRef `json:"caRef,omitzero" description:"ConfigMap with certificates of authorities to trust."`
}

// PullRequestGitea is a repository of Gitea.
type PullRequestGitea struct {
	Owner    string     `json:"owner" required:"true" description:"Organization or user."`
	Repo     string     `json:"repo" required:"true" description:"Name of the repository."`
	API      string     `json:"api" required:"true" description:"URL of the server."`
	TokenRef *SecretRef `json:"tokenRef,omitzero" description:"Secret with the access token. Defaults to none, for public repositories."`
	Labels   []string   `json:"labels,omitzero" description:"Labels that a pull request must have."`
	Insecure bool       `json:"insecure,omitzero" description:"Must not be true: trust the authority of the server."`
}

// PullRequestBitbucketServer is a repository of Bitbucket Server.
type PullRequestBitbucketServer struct {
	Project     string        `json:"project" required:"true" description:"Key of the project."`
	Repo        string        `json:"repo" required:"true" description:"Name of the repository."`
	API         string        `json:"api" required:"true" description:"URL of the server."`
	BasicAuth   *BasicAuth    `json:"basicAuth,omitzero" description:"User name and password."`
	BearerToken *BearerToken  `json:"bearerToken,omitzero" description:"Access token."`
	Insecure    bool          `json:"insecure,omitzero" description:"Must not be true: use caRef."`
	CARef       *ConfigMapRef `json:"caRef,omitzero" description:"ConfigMap with certificates of authorities to trust."`
}

// PullRequestBitbucket is a repository of Bitbucket Cloud.
type PullRequestBitbucket struct {
	Owner       string       `json:"owner" required:"true" description:"Workspace."`
	Repo        string       `json:"repo" required:"true" description:"Name of the repository."`
	API         string       `json:"api,omitzero" description:"URL of the API. Defaults to Bitbucket Cloud."`
	BasicAuth   *BasicAuth   `json:"basicAuth,omitzero" description:"User name and password."`
	BearerToken *BearerToken `json:"bearerToken,omitzero" description:"Access token."`
}

// PullRequestAzureDevOps is a repository of Azure DevOps.
type PullRequestAzureDevOps struct {
	Organization string     `json:"organization" required:"true" description:"Name of the organization, or of the collection."`
	Project      string     `json:"project" required:"true" description:"Name of the project."`
	Repo         string     `json:"repo" required:"true" description:"Name of the repository."`
	API          string     `json:"api,omitzero" description:"URL of the server. Defaults to dev.azure.com."`
	TokenRef     *SecretRef `json:"tokenRef,omitzero" description:"Secret with the personal access token. Defaults to none, for public projects."`
	Labels       []string   `json:"labels,omitzero" description:"Labels that a pull request must have."`
}

// BasicAuth is a user with a password.
type BasicAuth struct {
	Username    string     `json:"username" required:"true" description:"Name of the user."`
	PasswordRef *SecretRef `json:"passwordRef" required:"true" description:"Secret with the password."`
}

// BearerToken is an access token.
type BearerToken struct {
	TokenRef *SecretRef `json:"tokenRef" required:"true" description:"Secret with the token."`
}

// SecretRef is a key of a Secret in the namespace of the ApplicationSet.
type SecretRef struct {
	SecretName string `json:"secretName" required:"true" description:"Name of the Secret."`
	Key        string `json:"key" required:"true" description:"Key in the Secret."`
}

// ConfigMapRef is a key of a ConfigMap in the namespace of the ApplicationSet.
type ConfigMapRef struct {
	ConfigMapName string `json:"configMapName" required:"true" description:"Name of the ConfigMap."`
	Key           string `json:"key" required:"true" description:"Key in the ConfigMap."`
}

// PluginGenerator gives the sets of parameters that a program responds with.
type PluginGenerator struct {
	ConfigMapRef        PluginConfigMapRef      `json:"configMapRef" required:"true" description:"ConfigMap of the control namespace with baseUrl, token and requestTimeout."`
	Input               PluginInput             `json:"input,omitzero" description:"Input of the plugin."`
	Values              map[string]string       `json:"values,omitzero" description:"Additional parameters, under values."`
	RequeueAfterSeconds *int64                  `json:"requeueAfterSeconds,omitzero" description:"Interval in seconds at which the plugin is polled. Defaults to 30 minutes."`
	Template            *ApplicationSetTemplate `json:"template,omitzero" free:"true" description:"Overrides the template of the ApplicationSet."`
}

// PluginConfigMapRef is the ConfigMap of a plugin.
type PluginConfigMapRef struct {
	Name string `json:"name" required:"true" description:"Name of the ConfigMap."`
}

// PluginInput is the input of a plugin.
type PluginInput struct {
	Parameters map[string]any `json:"parameters,omitzero" description:"Parameters of any type."`
}

// DuckTypeGenerator gives one set of parameters for each cluster that an object
// lists in its status.
type DuckTypeGenerator struct {
	ConfigMapRef        string                  `json:"configMapRef" required:"true" description:"ConfigMap of the control namespace with apiVersion, kind, statusListKey and matchKey."`
	Name                string                  `json:"name,omitzero" description:"Name of the object."`
	LabelSelector       *metav1.LabelSelector   `json:"labelSelector,omitzero" free:"true" description:"Selects objects by their labels, in the place of a name."`
	Values              map[string]string       `json:"values,omitzero" description:"Additional parameters, under values."`
	RequeueAfterSeconds *int64                  `json:"requeueAfterSeconds,omitzero" description:"Interval in seconds at which the objects are read. Defaults to 3 minutes."`
	Template            *ApplicationSetTemplate `json:"template,omitzero" free:"true" description:"Overrides the template of the ApplicationSet."`
}
