package v1alpha1

import (
	"errors"
	"strconv"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// ApplicationSource is one source of manifests.
type ApplicationSource struct {
	RepoURL        string                      `json:"repoURL" required:"true" description:"URL of the Git repository, the Helm repository or the OCI registry."`
	Path           string                      `json:"path,omitzero" description:"Directory in the Git repository."`
	TargetRevision string                      `json:"targetRevision,omitzero" description:"Branch, tag, commit or semver range; for a chart, its version or range. Defaults to HEAD."`
	TagPrefix      string                      `json:"tagPrefix,omitzero" description:"Prefix of the tags that a version or a range in targetRevision is about, such as app/. The rest of such a tag is its version."`
	Chart          string                      `json:"chart,omitzero" description:"Name of the chart in a Helm repository."`
	Ref            string                      `json:"ref,omitzero" description:"Name by which value files of other sources reference this source, as $name/path."`
	Name           string                      `json:"name,omitzero" description:"Display name of the source."`
	Helm           *ApplicationSourceHelm      `json:"helm,omitzero" description:"Options for rendering a Helm chart."`
	Kustomize      *ApplicationSourceKustomize `json:"kustomize,omitzero" description:"Options for rendering a kustomization."`
	Directory      *ApplicationSourceDirectory `json:"directory,omitzero" description:"Options for reading a directory of manifests."`
	Plugin         *ApplicationSourcePlugin    `json:"plugin,omitzero" description:"Options for a config management plugin, which generates the manifests."`
}

// ApplicationSourceHelm has the options for rendering a chart.
type ApplicationSourceHelm struct {
	ValueFiles              []string            `json:"valueFiles,omitzero" description:"Value files, relative to the chart, or $ref/path of another source. Later ones take precedence."`
	Values                  string              `json:"values,omitzero" description:"Values as YAML text. They take precedence over valueFiles."`
	ValuesObject            map[string]any      `json:"valuesObject,omitzero" description:"Values as an object. They take precedence over values."`
	Parameters              []HelmParameter     `json:"parameters,omitzero" description:"Single values. They take precedence over all others."`
	FileParameters          []HelmFileParameter `json:"fileParameters,omitzero" description:"Single values that are read from files."`
	ReleaseName             string              `json:"releaseName,omitzero" description:"Name of the release. Defaults to the name of the Application."`
	Namespace               string              `json:"namespace,omitzero" description:"Namespace for templates. Defaults to the namespace of the destination."`
	KubeVersion             string              `json:"kubeVersion,omitzero" description:"Kubernetes version for templates. Defaults to the version of the cluster."`
	APIVersions             []string            `json:"apiVersions,omitzero" description:"API versions for templates, as group/version/kind. Defaults to those of the cluster."`
	SkipCrds                bool                `json:"skipCrds,omitzero" description:"Skips the crds directory of the chart."`
	IgnoreMissingValueFiles bool                `json:"ignoreMissingValueFiles,omitzero" description:"Ignores files of valueFiles that do not exist."`
	SkipTests               bool                `json:"skipTests,omitzero" description:"Skips the tests of the chart, which are never applied."`
	SkipSchemaValidation    bool                `json:"skipSchemaValidation,omitzero" description:"Renders without checking the values against values.schema.json of the chart."`
	Version                 string              `json:"version,omitzero" enum:",v3,3,v4" description:"Version of Helm. Every value means the built-in one."`
	PassCredentials         bool                `json:"passCredentials,omitzero" ignored:"credentials of a repository are sent to its host only: serve the archives of the charts there, and remove it" description:"Has no effect: credentials of a repository are sent to its host only."`
}

// HelmParameter is a single value for a chart.
type HelmParameter struct {
	Name        string `json:"name,omitzero" description:"Path of the value, such as image.tag."`
	Value       string `json:"value,omitzero" description:"The value."`
	ForceString bool   `json:"forceString,omitzero" description:"Keeps numbers and booleans as strings."`
}

// HelmFileParameter is a single value for a chart that is the content of a file.
type HelmFileParameter struct {
	Name string `json:"name,omitzero" description:"Path of the value."`
	Path string `json:"path,omitzero" description:"The file, relative to the chart."`
}

// ApplicationSourceKustomize has the options for rendering a kustomization.
type ApplicationSourceKustomize struct {
	NamePrefix                string             `json:"namePrefix,omitzero" description:"Prefix of the names of all objects."`
	NameSuffix                string             `json:"nameSuffix,omitzero" description:"Suffix of the names of all objects."`
	Images                    []string           `json:"images,omitzero" description:"Image overrides, as [name=]image:tag or [name=]image@digest."`
	CommonLabels              map[string]string  `json:"commonLabels,omitzero" description:"Labels for all objects."`
	CommonAnnotations         map[string]string  `json:"commonAnnotations,omitzero" description:"Annotations for all objects."`
	LabelWithoutSelector      bool               `json:"labelWithoutSelector,omitzero" description:"Keeps commonLabels out of selectors."`
	LabelIncludeTemplates     bool               `json:"labelIncludeTemplates,omitzero" description:"Adds commonLabels to templates too, with labelWithoutSelector."`
	ForceCommonLabels         bool               `json:"forceCommonLabels,omitzero" description:"Allows commonLabels to replace labels of the kustomization."`
	ForceCommonAnnotations    bool               `json:"forceCommonAnnotations,omitzero" description:"Allows commonAnnotations to replace annotations of the kustomization."`
	Namespace                 string             `json:"namespace,omitzero" description:"Namespace of all objects."`
	Replicas                  []KustomizeReplica `json:"replicas,omitzero" description:"Replica overrides."`
	Patches                   []KustomizePatch   `json:"patches,omitzero" description:"Patches of objects."`
	Components                []string           `json:"components,omitzero" description:"Directories of components to add."`
	KubeVersion               string             `json:"kubeVersion,omitzero" description:"Kubernetes version for charts of the kustomization."`
	APIVersions               []string           `json:"apiVersions,omitzero" description:"API versions for charts of the kustomization, as group/version/kind."`
	Version                   string             `json:"version,omitzero" ignored:"there is one version of Kustomize, the built-in one: remove it" description:"Has no effect: there is one version of Kustomize."`
	CommonAnnotationsEnvsubst bool               `json:"commonAnnotationsEnvsubst,omitzero" description:"Replaces variables of the build environment in commonAnnotations, such as $ARGOCD_APP_NAME."`
	IgnoreMissingComponents   bool               `json:"ignoreMissingComponents,omitzero" description:"Ignores directories of components that do not exist."`
}

// KustomizeReplica is a number of replicas for the objects of a name.
type KustomizeReplica struct {
	Name  string             `json:"name" required:"true" description:"Name of a Deployment or StatefulSet."`
	Count intstr.IntOrString `json:"count" required:"true" description:"Number of replicas."`
}

// Number returns the count as a number.
func (r *KustomizeReplica) Number() (int64, error) {
	count := int64(r.Count.IntVal)
	if r.Count.Type == intstr.String {
		parsed, err := strconv.ParseInt(r.Count.StrVal, 10, 32)
		if err != nil {
			return 0, errors.New("it is not a number: write one such as 3")
		}
		count = parsed
	}
	if count < 0 {
		return 0, errors.New("it is negative: write 0 or more")
	}
	return count, nil
}

// KustomizePatch is a patch of objects.
type KustomizePatch struct {
	Path    string             `json:"path,omitzero" description:"File with the patch."`
	Patch   string             `json:"patch,omitzero" description:"The patch: a part of an object, or JSON patch operations."`
	Target  *KustomizeSelector `json:"target,omitzero" description:"The objects to patch. Defaults to the object that the patch names."`
	Options map[string]bool    `json:"options,omitzero" description:"allowNameChange and allowKindChange."`
}

// KustomizeSelector selects objects of a kustomization. Its texts are regular
// expressions.
type KustomizeSelector struct {
	Group              string `json:"group,omitzero" description:"Group of the objects."`
	Version            string `json:"version,omitzero" description:"Version of the objects."`
	Kind               string `json:"kind,omitzero" description:"Kind of the objects."`
	Name               string `json:"name,omitzero" description:"Name of the objects."`
	Namespace          string `json:"namespace,omitzero" description:"Namespace of the objects."`
	AnnotationSelector string `json:"annotationSelector,omitzero" description:"Selector of annotations."`
	LabelSelector      string `json:"labelSelector,omitzero" description:"Selector of labels."`
}

// ApplicationSourceDirectory selects the files of a folder.
type ApplicationSourceDirectory struct {
	Recurse bool                      `json:"recurse,omitzero" description:"Reads subdirectories too."`
	Include string                    `json:"include,omitzero" description:"Glob pattern of the files to read; {a,b} matches either."`
	Exclude string                    `json:"exclude,omitzero" description:"Glob pattern of the files to exclude. It takes precedence over include."`
	Jsonnet *ApplicationSourceJsonnet `json:"jsonnet,omitzero" description:"Options for evaluating Jsonnet files."`
}

// ApplicationSourceJsonnet has the options for evaluating Jsonnet files.
type ApplicationSourceJsonnet struct {
	ExtVars []JsonnetVar `json:"extVars,omitzero" description:"External variables."`
	TLAs    []JsonnetVar `json:"tlas,omitzero" description:"Top-level arguments."`
	Libs    []string     `json:"libs,omitzero" description:"Directories of the repository that are searched for imports."`
}

// JsonnetVar is a variable for Jsonnet.
type JsonnetVar struct {
	Name  string `json:"name" required:"true" description:"Name of the variable."`
	Value string `json:"value" required:"true" description:"Its value."`
	Code  bool   `json:"code,omitzero" description:"Whether the value is Jsonnet code instead of text."`
}
