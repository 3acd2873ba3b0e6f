package argocd

import (
	"fmt"
	"strings"

	"slipway.dev/slipway/internal/wire/permission"
)

// Version is the version of Argo CD whose API is served.
const Version = "v3.5.6"

// Procedure is a procedure that is served.
type Procedure struct {
	// Name is its path in gRPC: /application.ApplicationService/Sync.
	Name string
	Rule permission.Rule
	// Stream is set if it responds with any number of messages.
	Stream bool
	// input and output are names of messages.
	input, output string
	// method and paths are its form in REST, if it has one. {NAME} is a segment
	// of the path that becomes a field; {NAME...} is the rest of the path.
	method string
	paths  []string
}

// procedures are all of them. The messages of the others are in no .proto file,
// so that nothing can call them by mistake.
var procedures = func() []*Procedure {
	const (
		apps    = "/api/v1/applications"
		app     = apps + "/{name}"
		byApp   = apps + "/{applicationName}"
		streams = "/api/v1/stream/applications"
	)
	signedIn := permission.Rule{Permission: permission.SignedIn, Read: true}
	get, sync, run := permission.Get.Rule(), permission.Sync.Rule(), permission.Action.Rule()
	all := []*Procedure{
		{"application.ApplicationService/List", get, false, "ApplicationQuery", "ApplicationList", "GET", []string{apps}},
		{"application.ApplicationService/Get", get, false, "ApplicationQuery", "Application", "GET", []string{app}},
		{"application.ApplicationService/Watch", get, true, "ApplicationQuery", "ApplicationWatchEvent", "GET", []string{streams}},
		{"application.ApplicationService/ResourceTree", get, false, "ResourcesQuery", "ApplicationTree", "GET", []string{byApp + "/resource-tree"}},
		{"application.ApplicationService/ManagedResources", get, false, "ResourcesQuery", "ManagedResourcesResponse", "GET", []string{byApp + "/managed-resources"}},
		{"application.ApplicationService/GetManifests", get, false, "ApplicationManifestQuery", "ManifestResponse", "GET", []string{app + "/manifests"}},
		{"application.ApplicationService/GetResource", get, false, "ApplicationResourceRequest", "ApplicationResourceResponse", "GET", []string{app + "/resource"}},
		{"application.ApplicationService/RevisionMetadata", get, false, "RevisionMetadataQuery", "RevisionMetadata", "GET", []string{app + "/revisions/{revision}/metadata"}},
		{"application.ApplicationService/PodLogs", permission.Logs.Rule(), true, "ApplicationPodLogsQuery", "LogEntry", "GET", []string{app + "/logs", app + "/pods/{podName}/logs"}},
		{"application.ApplicationService/Sync", sync, false, "ApplicationSyncRequest", "Application", "POST", []string{app + "/sync"}},
		{"application.ApplicationService/Rollback", permission.Rollback.Rule(), false, "ApplicationRollbackRequest", "Application", "POST", []string{app + "/rollback"}},
		{"application.ApplicationService/TerminateOperation", sync, false, "OperationTerminateRequest", "OperationTerminateResponse", "DELETE", []string{app + "/operation"}},
		{"application.ApplicationService/Delete", permission.Delete.Rule(), false, "ApplicationDeleteRequest", "ApplicationResponse", "DELETE", []string{app}},
		{"application.ApplicationService/ListResourceActions", get, false, "ApplicationResourceRequest", "ResourceActionsListResponse", "GET", []string{app + "/resource/actions"}},
		{"application.ApplicationService/RunResourceAction", run, false, "ResourceActionRunRequest", "ApplicationResponse", "", nil},
		{"application.ApplicationService/RunResourceActionV2", run, false, "ResourceActionRunRequestV2", "ApplicationResponse", "POST", []string{app + "/resource/actions/v2"}},
		// The runtime decides about each project, repository and cluster.
		{"project.ProjectService/List", signedIn, false, "ProjectQuery", "AppProjectList", "GET", []string{"/api/v1/projects"}},
		{"project.ProjectService/Get", signedIn, false, "ProjectQuery", "AppProject", "GET", []string{"/api/v1/projects/{name}"}},
		{"project.ProjectService/GetDetailedProject", signedIn, false, "ProjectQuery", "DetailedProjectsResponse", "GET", []string{"/api/v1/projects/{name}/detailed"}},
		{"repository.RepositoryService/ListRepositories", signedIn, false, "RepoQuery", "RepositoryList", "GET", []string{"/api/v1/repositories"}},
		{"repository.RepositoryService/List", signedIn, false, "RepoQuery", "RepositoryList", "", nil},
		{"repository.RepositoryService/Get", signedIn, false, "RepoQuery", "Repository", "", nil},
		{"cluster.ClusterService/List", signedIn, false, "ClusterQuery", "ClusterList", "GET", []string{"/api/v1/clusters"}},
		{"cluster.ClusterService/Get", signedIn, false, "ClusterQuery", "Cluster", "", nil},
		{"cluster.SettingsService/Get", signedIn, false, "SettingsQuery", "Settings", "GET", []string{"/api/v1/settings"}},
		{"session.SessionService/GetUserInfo", signedIn, false, "GetUserInfoRequest", "GetUserInfoResponse", "GET", []string{"/api/v1/session/userinfo"}},
		{"account.AccountService/CanI", signedIn, false, "CanIRequest", "CanIResponse", "GET", []string{"/api/v1/account/can-i/{resource}/{action}/{subresource...}"}},
		// The request is google.protobuf.Empty, which has no fields either.
		{"version.VersionService/Version", signedIn, false, "SettingsQuery", "VersionMessage", "GET", []string{"/api/version"}},
	}
	for _, one := range all {
		one.Name = "/" + one.Name
	}
	return all
}()

// Procedures returns all procedures that are served.
func Procedures() []*Procedure { return procedures }

// Find returns the procedure of a request, and the fields that are in its path.
// The path has no prefix.
func Find(method, path string) (found *Procedure, values map[string]string) {
	for _, one := range procedures {
		if method == "POST" && path == one.Name {
			return one, nil
		}
		if method != one.method {
			continue
		}
		for _, pattern := range one.paths {
			if values, ok := matchPath(pattern, path); ok {
				return one, values
			}
		}
	}
	return nil, nil
}

// matchPath compares a path with a pattern of REST.
func matchPath(pattern, path string) (values map[string]string, ok bool) {
	values = map[string]string{}
	wanted, given := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i, segment := range wanted {
		name, isField := strings.CutPrefix(segment, "{")
		if !isField {
			if i >= len(given) || given[i] != segment {
				return nil, false
			}
			continue
		}
		if i >= len(given) || given[i] == "" {
			return nil, false
		}
		if rest, isRest := strings.CutSuffix(name, "...}"); isRest {
			values[rest] = strings.Join(given[i:], "/")
			return values, true
		}
		values[strings.TrimSuffix(name, "}")] = given[i]
	}
	return values, len(given) == len(wanted)
}

// Unserved is the message for a request that no procedure serves, with what to do
// instead.
func Unserved(method, path string) string {
	switch {
	case path == "/session.SessionService/Create" || path == "/api/v1/session" && method == "POST":
		return "there is no login with a password here: create an API key of the platform, and pass it with --auth-token or ARGOCD_AUTH_TOKEN"
	case strings.HasPrefix(path, "/api/") && method == "GET", strings.Contains(path, "Service/Get"), strings.Contains(path, "Service/List"):
		return fmt.Sprintf("%s is a part of Argo CD's API that this runtime does not serve", path)
	}
	return fmt.Sprintf("%s is not served: through Argo CD's API Applications are read, synced, rolled back and deleted; change their specs, projects, repositories and clusters in Git or with kubectl", path)
}
