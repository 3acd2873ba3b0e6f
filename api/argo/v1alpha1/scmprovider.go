package v1alpha1

// SCMProviderGenerator gives one set of parameters for each repository of an
// owner at a Git host.
type SCMProviderGenerator struct {
	GitHub              *SCMProviderGitHub          `json:"github,omitzero" description:"An organization of GitHub or GitHub Enterprise."`
	GitLab              *SCMProviderGitLab          `json:"gitlab,omitzero" description:"A group of GitLab."`
	Gitea               *SCMProviderGitea           `json:"gitea,omitzero" description:"An organization of Gitea."`
	Bitbucket           *SCMProviderBitbucket       `json:"bitbucket,omitzero" description:"A workspace of Bitbucket Cloud."`
	BitbucketServer     *SCMProviderBitbucketServer `json:"bitbucketServer,omitzero" description:"A project of Bitbucket Server or Data Center."`
	AzureDevOps         *SCMProviderAzureDevOps     `json:"azureDevOps,omitzero" description:"A project of Azure DevOps."`
	AWSCodeCommit       Unsupported                 `json:"awsCodeCommit,omitzero" refused:"repositories of CodeCommit are not listed: use the plugin generator, or list them" description:"Not supported."`
	Filters             []SCMProviderFilter         `json:"filters,omitzero" description:"Filters, one of which must match. Defaults to all repositories."`
	CloneProtocol       string                      `json:"cloneProtocol,omitzero" enum:",ssh,https" description:"Protocol of the parameter url: ssh or https. Defaults to ssh."`
	Values              map[string]string           `json:"values,omitzero" description:"Additional parameters, under values."`
	RequeueAfterSeconds *int64                      `json:"requeueAfterSeconds,omitzero" description:"Interval in seconds at which the Git host is polled. Defaults to 30 minutes."`
	Template            *ApplicationSetTemplate     `json:"template,omitzero" free:"true" description:"Overrides the template of the ApplicationSet."`
}

// SCMProviderFilter selects repositories by conditions, all of which must hold.
type SCMProviderFilter struct {
	RepositoryMatch *string  `json:"repositoryMatch,omitzero" description:"Regular expression of the name of the repository."`
	LabelMatch      *string  `json:"labelMatch,omitzero" description:"Regular expression of one of its labels or topics."`
	BranchMatch     *string  `json:"branchMatch,omitzero" description:"Regular expression of the branch."`
	PathsExist      []string `json:"pathsExist,omitzero" description:"Files and directories that must exist."`
	PathsDoNotExist []string `json:"pathsDoNotExist,omitzero" description:"Files and directories that must not exist."`
}

// SCMProviderGitHub is an organization of GitHub.
type SCMProviderGitHub struct {
	Organization         string     `json:"organization" required:"true" description:"Name of the organization."`
	API                  string     `json:"api,omitzero" description:"URL of GitHub Enterprise. Defaults to GitHub."`
	TokenRef             *SecretRef `json:"tokenRef,omitzero" description:"Secret with the access token. Defaults to none, for public repositories."`
	AppSecretName        string     `json:"appSecretName,omitzero" description:"Secret with a GitHub App, with the fields of a repository: githubAppID, githubAppInstallationID and githubAppPrivateKey."`
	AllBranches          bool       `json:"allBranches,omitzero" description:"Generates a set for each branch, and not only for the default one."`
	ExcludeArchivedRepos bool       `json:"excludeArchivedRepos,omitzero" description:"Leaves out archived repositories."`
}

// SCMProviderGitLab is a group of GitLab.
type SCMProviderGitLab struct {
	Group                 string        `json:"group" required:"true" description:"ID or path of the group."`
	IncludeSubgroups      bool          `json:"includeSubgroups,omitzero" description:"Includes projects of subgroups."`
	IncludeSharedProjects *bool         `json:"includeSharedProjects,omitzero" description:"Includes projects that are shared with the group. Defaults to true."`
	API                   string        `json:"api,omitzero" description:"URL of the server. Defaults to gitlab.com."`
	TokenRef              *SecretRef    `json:"tokenRef,omitzero" description:"Secret with the access token. Defaults to none, for public projects."`
	AllBranches           bool          `json:"allBranches,omitzero" description:"Generates a set for each branch, and not only for the default one."`
	Topic                 string        `json:"topic,omitzero" description:"Topic that a project must have."`
	IncludeArchivedRepos  bool          `json:"includeArchivedRepos,omitzero" description:"Includes archived projects."`
	Insecure              bool          `json:"insecure,omitzero" description:"Must not be true: use caRef."`
	CARef                 *ConfigMapRef `json:"caRef,omitzero" description:"ConfigMap with certificates of authorities to trust."`
}

// SCMProviderGitea is an organization of Gitea.
type SCMProviderGitea struct {
	Owner                string     `json:"owner" required:"true" description:"Name of the organization."`
	API                  string     `json:"api" required:"true" description:"URL of the server."`
	TokenRef             *SecretRef `json:"tokenRef,omitzero" description:"Secret with the access token. Defaults to none, for public repositories."`
	AllBranches          bool       `json:"allBranches,omitzero" description:"Generates a set for each branch, and not only for the default one."`
	ExcludeArchivedRepos bool       `json:"excludeArchivedRepos,omitzero" description:"Leaves out archived repositories."`
	Insecure             bool       `json:"insecure,omitzero" description:"Must not be true: trust the authority of the server."`
}

// SCMProviderBitbucket is a workspace of Bitbucket Cloud.
type SCMProviderBitbucket struct {
	Owner          string     `json:"owner" required:"true" description:"Workspace."`
	User           string     `json:"user" required:"true" description:"Name of the user."`
	AppPasswordRef *SecretRef `json:"appPasswordRef" required:"true" description:"Secret with the app password."`
	AllBranches    bool       `json:"allBranches,omitzero" description:"Generates a set for each branch, and not only for the default one."`
}

// SCMProviderAzureDevOps is a project of Azure DevOps.
type SCMProviderAzureDevOps struct {
	Organization   string     `json:"organization" required:"true" description:"Name of the organization, or of the collection."`
	TeamProject    string     `json:"teamProject" required:"true" description:"Name of the project."`
	API            string     `json:"api,omitzero" description:"URL of the server. Defaults to dev.azure.com."`
	AccessTokenRef *SecretRef `json:"accessTokenRef" required:"true" description:"Secret with the personal access token."`
	AllBranches    bool       `json:"allBranches,omitzero" description:"Generates a set for each branch, and not only for the default one."`
}

// SCMProviderBitbucketServer is a project of Bitbucket Server.
type SCMProviderBitbucketServer struct {
	Project     string        `json:"project" required:"true" description:"Key of the project."`
	API         string        `json:"api" required:"true" description:"URL of the server."`
	BasicAuth   *BasicAuth    `json:"basicAuth,omitzero" description:"User name and password."`
	BearerToken *BearerToken  `json:"bearerToken,omitzero" description:"Access token."`
	AllBranches bool          `json:"allBranches,omitzero" description:"Generates a set for each branch, and not only for the default one."`
	Insecure    bool          `json:"insecure,omitzero" description:"Must not be true: use caRef."`
	CARef       *ConfigMapRef `json:"caRef,omitzero" description:"ConfigMap with certificates of authorities to trust."`
}
