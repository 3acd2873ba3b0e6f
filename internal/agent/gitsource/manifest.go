package gitsource

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	argo "slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/glob"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// maxRefs bounds the refs that are read to check that a repository is readable.
const maxRefs = 100_000

// checkName refuses names that an Application cannot have. The name is also
// that of a file and part of a webhook URL, so the stricter label form applies.
func checkName(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return invalid("the name of a Git Source has lower-case letters, digits and dashes, begins and ends with a letter or a digit, and has at most 63 characters")
	}
	return nil
}

// validate checks the fields of a request, without a request to anything else.
func (s *Service) validate(given *runtimev1.GitSource) error {
	// The name is that of an Application and of a file.
	if err := checkName(given.GetName()); err != nil {
		return err
	}
	if slices.Contains(sharedrepo.ReservedNames(s.options.SharedRepository.Runtime()), given.GetName()) {
		return invalid("the name %s is taken by the runtime itself: choose another", given.GetName())
	}
	if err := checkAddress(given.GetRepoUrl()); err != nil {
		return err
	}
	// The path becomes part of an Application, and a relative one with .. would
	// leave the repository.
	folder := given.GetPath()
	if path.IsAbs(folder) || (folder != "" && folder != "." && path.Clean(folder) != strings.TrimSuffix(folder, "/")) || strings.HasPrefix(path.Clean(folder), "..") || hasControl(folder) {
		return invalid("the path is a folder of the repository, without .. and without a slash at its beginning")
	}
	// These characters have a meaning in Git's revision syntax, and a leading
	// dash in a command line.
	if hasControl(given.GetRevision()) || strings.ContainsAny(given.GetRevision(), " ~^:\\") || strings.HasPrefix(given.GetRevision(), "-") {
		return invalid("the revision is a branch, a tag or a commit")
	}
	for what, pattern := range map[string]string{"include": given.GetInclude(), "exclude": given.GetExclude()} {
		if _, err := glob.Compile(pattern); err != nil {
			return invalid("the pattern %s cannot be used: %v", what, err)
		}
	}
	if given.GetDestinationNamespace() != "" && len(validation.IsDNS1123Label(given.GetDestinationNamespace())) > 0 {
		return invalid("the destination namespace is not a name that a namespace can have")
	}
	if given.GetProject() != "" && len(validation.IsDNS1123Subdomain(given.GetProject())) > 0 {
		return invalid("the project is not a name that an AppProject can have")
	}
	if server := given.GetDestinationServer(); server != "" {
		if parsed, err := url.Parse(server); err != nil || parsed.Scheme != "https" || parsed.Host == "" || parsed.User != nil {
			return invalid("the destination server is the https address of a cluster's API server, or empty for the runtime's own")
		}
	}
	return nil
}

// hasControl reports whether a text has control characters, which would break a
// line of YAML or of a log.
func hasControl(text string) bool { return strings.ContainsFunc(text, unicode.IsControl) }

// checkAddress refuses invalid addresses and addresses with credentials: they
// would be committed to Git.
func checkAddress(text string) error {
	if _, err := address.ParseGit(text); err != nil {
		return invalid("the repository: %v", err)
	}
	return nil
}

// checkSSH requires an SSH key of the runtime for an SSH address (R67). Without
// it the source would be created and never sync.
func (s *Service) checkSSH(ctx context.Context, given *runtimev1.GitSource) error {
	at, err := remote.ParseAddress(given.GetRepoUrl())
	if err != nil || at.Scheme != address.SSH {
		return err
	}
	ready, err := s.options.Integrations.SSHReady(ctx, s.withDefaults(given).GetProject(), at)
	if err != nil {
		return err
	}
	if !ready {
		return sharedrepo.NotReady("the runtime has no SSH key for %s: set one with its Git credentials, or use the https address of the repository", at.Host)
	}
	return nil
}

// checkReadable checks that the runtime can read the repository, and creates it
// first if that is requested.
func (s *Service) checkReadable(ctx context.Context, given *runtimev1.GitSource, create bool) error {
	err := s.readable(ctx, given)
	if err == nil || !create {
		return err
	}
	// Creating is only tried after reading failed: most sources exist.
	if err := s.options.Integrations.CreateRepository(ctx, given.GetRepoUrl()); err != nil {
		return err
	}
	return s.readable(ctx, given)
}

// readable lists the refs of a repository with the credentials of the Git
// Source's project.
func (s *Service) readable(ctx context.Context, given *runtimev1.GitSource) error {
	at, err := remote.ParseAddress(given.GetRepoUrl())
	if err != nil {
		return err
	}
	access, err := s.options.Integrations.Access(ctx, s.withDefaults(given).GetProject(), given.GetRepoUrl())
	if err != nil {
		return err
	}
	// Listing refs is the cheapest request that needs read access.
	client, err := remote.NewClient(at, access, maxRefs)
	if err != nil {
		return repositoryError(at, err)
	}
	defer client.Close()
	if _, err := client.Refs(ctx); err != nil {
		return repositoryError(at, err)
	}
	return nil
}

// repositoryError adds the address to an error, and keeps its reason, which
// decides the code of the response.
func repositoryError(at address.Address, err error) error {
	failure := remote.ConnectionFailure(context.Background(), err)
	return &remote.Failure{Reason: failure.Reason, Message: "the repository " + at.String() + ": " + failure.Message, Err: failure}
}

// withDefaults returns a Git Source with the defaults of missing fields.
// Defaults are written to the file explicitly, so that a later change of them
// does not move existing sources.
func (s *Service) withDefaults(given *runtimev1.GitSource) *runtimev1.GitSource {
	return &runtimev1.GitSource{
		Name: given.GetName(), RepoUrl: given.GetRepoUrl(),
		Path: cmp.Or(strings.TrimSuffix(given.GetPath(), "/"), "."), Revision: cmp.Or(given.GetRevision(), "HEAD"),
		Include: cmp.Or(given.GetInclude(), "*"), Exclude: given.GetExclude(),
		DestinationNamespace: cmp.Or(given.GetDestinationNamespace(), s.options.SharedRepository.Namespace()),
		DestinationServer:    cmp.Or(given.GetDestinationServer(), sharedrepo.InCluster),
		Project:              cmp.Or(given.GetProject(), argo.DefaultProject),
	}
}

// manifest returns the Application of a Git Source. It has no automated sync
// settings of its own; sharedrepo.Manifest adds those that all entities share.
func (s *Service) manifest(given *runtimev1.GitSource) sharedrepo.Manifest {
	full := s.withDefaults(given)
	// A Git Source covers all folders below its path.
	directory := map[string]any{"recurse": true, "include": full.GetInclude()}
	if full.GetExclude() != "" {
		directory["exclude"] = full.GetExclude()
	}
	return sharedrepo.Manifest{
		Name: full.GetName(), Runtime: s.options.SharedRepository.Runtime(), Entity: sharedrepo.EntityGitSource, Project: full.GetProject(),
		Source: map[string]any{
			"repoURL": full.GetRepoUrl(), "path": full.GetPath(), "targetRevision": full.GetRevision(), "directory": directory,
		},
		Destination: sharedrepo.Destination{Server: full.GetDestinationServer(), Namespace: full.GetDestinationNamespace()},
	}
}

// edit sets the fields of a Git Source in a manifest and keeps all others.
func (s *Service) edit(object map[string]any, given *runtimev1.GitSource) error {
	// Only the fields of a Git Source are set. All others, such as annotations
	// and sync options, are the user's.
	fresh := s.manifest(given)
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return invalid("the file of the Git Source has no spec: correct it in Git")
	}
	source, ok := spec["source"].(map[string]any)
	if !ok {
		source = map[string]any{}
		spec["source"] = source
	}
	directory, ok := source["directory"].(map[string]any)
	if !ok {
		directory = map[string]any{}
	}
	// The field is optional in a request, so that an empty one must remove it.
	delete(directory, "exclude")
	maps.Copy(directory, fresh.Source["directory"].(map[string]any))
	// This replaces source["directory"], too; the merged one is set after it.
	maps.Copy(source, fresh.Source)
	source["directory"] = directory
	spec["project"] = fresh.Project
	spec["destination"] = map[string]any{"server": fresh.Destination.Server, "namespace": fresh.Destination.Namespace}
	return nil
}

// parse reads a Git Source from its file. It returns false for a file that is
// something else or is not valid YAML: users may keep other files in the
// folder.
func parse(text []byte) (*runtimev1.GitSource, bool) {
	var object map[string]any
	if yaml.Unmarshal(text, &object) != nil {
		return nil, false
	}
	return fromObject(object)
}

// fromObject reads a Git Source from its Application. Status fields are empty
// for an object from Git.
func fromObject(object map[string]any) (*runtimev1.GitSource, bool) {
	app, _, err := argo.Decode(object)
	if err != nil || app.Labels[sharedrepo.EntityLabel] != sharedrepo.EntityGitSource || app.Spec.Source == nil {
		return nil, false
	}
	source := app.Spec.Source
	out := &runtimev1.GitSource{
		// Addresses in Git may contain a password that a user wrote by hand.
		Name: app.Name, RepoUrl: address.Redact(source.RepoURL), Path: source.Path, Revision: source.TargetRevision,
		DestinationNamespace: app.Spec.Destination.Namespace, DestinationServer: app.Spec.Destination.Server, Project: app.Spec.Project,
		Sync: string(app.Status.Sync.Status), Health: string(app.Status.Health.Status), Message: messageOf(app),
	}
	if source.Directory != nil {
		out.Include, out.Exclude = source.Directory.Include, source.Directory.Exclude
	}
	return out, true
}

// messageOf returns the first condition of an Application, or else the message
// of an operation that did not succeed.
func messageOf(app *argo.Application) string {
	for _, condition := range app.Status.Conditions {
		return condition.Message
	}
	if state := app.Status.OperationState; state != nil && state.Phase != argo.OperationSucceeded {
		return state.Message
	}
	return ""
}
