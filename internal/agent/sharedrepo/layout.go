package sharedrepo

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/wire"
)

// Labels of the Applications that Slipway creates itself.
const (
	// EntityLabel is the type of an Application: internal-config, git-source or
	// runtime.
	EntityLabel = wire.EntityLabel
	// InternalLabel is true for Applications that users need not care about.
	InternalLabel = "slipway.dev/internal"
	// RuntimeLabel is the runtime that an Application belongs to.
	RuntimeLabel = "slipway.dev/runtime"
)

// The values of EntityLabel.
const (
	EntityConfig    = "internal-config"
	EntityGitSource = wire.EntityGitSource
	EntityRuntime   = "runtime"
)

// InCluster is the server of the runtime's own cluster.
const InCluster = "https://kubernetes.default.svc"

// Folders of the repository. A runtime's own folder is beside them, so that no
// runtime may have one of these names.
const (
	resourcesFolder = "resources"
	runtimesFolder  = "runtimes"
	chartFolder     = "chart"
)

// sharedFolders are the folders below resources that belong to no single
// runtime.
func sharedFolders() []string {
	return []string{"all-runtimes-all-clusters", "app-projects", "configurations", "control-planes", "runtimes"}
}

// CheckRuntime refuses names that collide with a folder.
func CheckRuntime(runtime string) error {
	if err := wire.RuntimeName(runtime); err != nil {
		return err
	}
	if slices.Contains(sharedFolders(), runtime) {
		return fmt.Errorf("a runtime named %s has no place in the Shared Configuration Repository, which has a folder of this name: choose another name", runtime)
	}
	return nil
}

// The names of the Applications of a runtime.

// ParentName is the Application in the cluster that syncs the repository.
func ParentName(runtime string) string { return runtime + "-shared" }

// InClusterName is the Application with the resources of the runtime's own
// cluster.
func InClusterName(runtime string) string { return runtime + "-in-cluster" }

// ReservedNames are names that no Git Source of a runtime may have.
func ReservedNames(runtime string) []string {
	return []string{runtime, ParentName(runtime), InClusterName(runtime), chartFolder}
}

// GitSourceFolder has one file for each Git Source of a runtime.
func GitSourceFolder(runtime string) string { return path.Join(resourcesFolder, runtime) }

// GitSourceFile is the file of one Git Source.
func GitSourceFile(runtime, name string) string {
	return path.Join(GitSourceFolder(runtime), name+".yaml")
}

// RuntimeFolder has one file for each cluster of a runtime, and that of the
// runtime itself.
func RuntimeFolder(runtime string) string { return path.Join(runtimesFolder, runtime) }

// ClusterFile is the file of one cluster of a runtime. The names in-cluster and
// runtime are reserved.
func ClusterFile(runtime, cluster string) string {
	return path.Join(RuntimeFolder(runtime), cluster+".yaml")
}

// inClusterFile and runtimeFile are the files of the runtime's own
// Applications.
func inClusterFile(runtime string) string { return ClusterFile(runtime, "in-cluster") }
func runtimeFile(runtime string) string   { return ClusterFile(runtime, "runtime") }

// ChartFolder has the chart that installs the runtime.
func ChartFolder(runtime string) string {
	return path.Join(resourcesFolder, runtime, chartFolder)
}

// Manifest is an Application to write.
type Manifest struct {
	Name, Namespace string
	Runtime         string
	Entity          string
	Internal        bool
	Annotations     map[string]string
	Source          map[string]any
	Destination     Destination
	Project         string
}

// Destination is the destination of an Application.
type Destination struct {
	Server, Namespace string
}

// YAML encodes the manifest in a fixed order. It has no finalizer: deleting one
// of our Applications never deletes its objects.
func (m Manifest) YAML() ([]byte, error) {
	metadata := map[string]any{"name": m.Name, "labels": map[string]any{
		EntityLabel: m.Entity, InternalLabel: fmt.Sprint(m.Internal), RuntimeLabel: m.Runtime,
	}}
	if m.Namespace != "" {
		metadata["namespace"] = m.Namespace
	}
	if len(m.Annotations) > 0 {
		metadata["annotations"] = m.Annotations
	}
	project, server := m.Project, m.Destination.Server
	project = cmp.Or(project, "default")
	server = cmp.Or(server, InCluster)
	return yaml.Marshal(map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": metadata,
		"spec": map[string]any{
			"project": project, "source": m.Source,
			"destination": map[string]any{"server": server, "namespace": m.Destination.Namespace},
			"syncPolicy": map[string]any{
				"automated": map[string]any{"prune": true, "selfHeal": true, "allowEmpty": true},
			},
		},
	})
}

// sourceAt returns a source in this repository.
func sourceAt(location Location, folder string, directory map[string]any) map[string]any {
	revision := cmp.Or(location.Branch, "HEAD")
	source := map[string]any{"repoURL": location.RepoURL, "targetRevision": revision, "path": path.Join(location.Path, folder)}
	if directory != nil {
		source["directory"] = directory
	}
	return source
}

// Parent is the Application that is applied to the cluster. It contains one
// Application for each cluster of the runtime.
func Parent(location Location, runtime, namespace string) Manifest {
	return Manifest{
		Name: ParentName(runtime), Namespace: namespace, Runtime: runtime, Entity: EntityConfig, Internal: true,
		Source:      sourceAt(location, RuntimeFolder(runtime), nil),
		Destination: Destination{Namespace: namespace},
	}
}

// inCluster is the Application of the runtime's own cluster: the resources of
// all clusters, of the clusters of runtimes, and of this runtime. Its pattern
// names folders and no items, so that it never changes.
func inCluster(location Location, runtime, namespace string) Manifest {
	include := fmt.Sprintf("{all-runtimes-all-clusters/*,app-projects/*,configurations/*,control-planes/*,runtimes/%s/*,%s/*}", runtime, runtime)
	return Manifest{
		Name: InClusterName(runtime), Runtime: runtime, Entity: EntityConfig, Internal: true,
		Source: sourceAt(location, resourcesFolder, map[string]any{
			"recurse": true, "include": include, "exclude": runtime + "/" + chartFolder + "/*",
		}),
		Destination: Destination{Namespace: namespace},
	}
}
