package v1alpha1

import (
	"errors"
	"strconv"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// ApplicationSource is one source of manifests.
type ApplicationSource struct {
	RepoURL        string                      `json:"repoURL" required:"true" description:"Address of the Git repository, of the Helm repository, or of the OCI registry."`
	Path           string                      `json:"path,omitzero" description:"Folder in the Git repository."`
	TargetRevision string                      `json:"targetRevision,omitzero" description:"Branch, tag, commit or semver range; for a chart its version or range. Without it HEAD."`
	Chart          string                      `json:"chart,omitzero" description:"Name of the chart in a Helm repository."`
	Ref            string                      `json:"ref,omitzero" description:"Name under which value files of other sources find this one, as $name/path."`
	Name           string                      `json:"name,omitzero" description:"Name of the source for people."`
	Helm           *ApplicationSourceHelm      `json:"helm,omitzero" description:"How a chart is rendered."`
	Kustomize      *ApplicationSourceKustomize `json:"kustomize,omitzero" description:"How a kustomization is rendered."`
	Directory      *ApplicationSourceDirectory `json:"directory,omitzero" description:"Which files of a folder are read."`
	Plugin         Unsupported                 `json:"plugin,omitzero" refused:"nothing runs programs on the content of a repository: render with Helm, Kustomize or Jsonnet, or commit the result" description:"Not supported."`
}

// ApplicationSourceHelm has the options for rendering a chart.
type ApplicationSourceHelm struct {
	ValueFiles              []string            `json:"valueFiles,omitzero" description:"Files of values, from the folder of the chart, or $ref/path of another source. Later ones win."`
	Values                  string              `json:"values,omitzero" description:"Values as YAML text. They win over valueFiles."`
	ValuesObject            map[string]any      `json:"valuesObject,omitzero" description:"Values. They win over the text in values."`
	Parameters              []HelmParameter     `json:"parameters,omitzero" description:"Single values. They win over all others."`
	FileParameters          []HelmFileParameter `json:"fileParameters,omitzero" description:"Single values that are the content of files."`
	ReleaseName             string              `json:"releaseName,omitzero" description:"Name of the release. Without it the name of the Application."`
	Namespace               string              `json:"namespace,omitzero" description:"Namespace for templates. Without it that of the destination."`
	KubeVersion             string              `json:"kubeVersion,omitzero" description:"Version of Kubernetes for templates. Without it that of the cluster."`
	APIVersions             []string            `json:"apiVersions,omitzero" description:"Kinds for templates, as group/version/kind. Without them those of the cluster."`
	SkipCrds                bool                `json:"skipCrds,omitzero" description:"Leaves out the folder crds of the chart."`
	IgnoreMissingValueFiles bool                `json:"ignoreMissingValueFiles,omitzero" description:"Leaves out files of valueFiles that do not exist."`
	SkipTests               bool                `json:"skipTests,omitzero" description:"Leaves out tests of the chart, which are never applied."`
	SkipSchemaValidation    bool                `json:"skipSchemaValidation,omitzero" description:"Renders without checking the values against values.schema.json of the chart."`
	Version                 string              `json:"version,omitzero" enum:",v3,3" description:"Version of Helm's format for charts."`
	PassCredentials         Unsupported         `json:"passCredentials,omitzero" refused:"credentials of a repository are sent to its host only: remove it" description:"Not supported."`
}

// HelmParameter is a single value for a chart.
type HelmParameter struct {
	Name        string `json:"name,omitzero" description:"Place of the value, such as image.tag."`
	Value       string `json:"value,omitzero" description:"The value."`
	ForceString bool   `json:"forceString,omitzero" description:"Keeps numbers and booleans text."`
}

// HelmFileParameter is a single value for a chart that is the content of a file.
type HelmFileParameter struct {
	Name string `json:"name,omitzero" description:"Place of the value."`
	Path string `json:"path,omitzero" description:"The file, from the folder of the chart."`
}

// ApplicationSourceKustomize has the options for rendering a kustomization.
type ApplicationSourceKustomize struct {
	NamePrefix                string             `json:"namePrefix,omitzero" description:"Text before the names of all objects."`
	NameSuffix                string             `json:"nameSuffix,omitzero" description:"Text behind the names of all objects."`
	Images                    []string           `json:"images,omitzero" description:"Other images, as [name=]image:tag or [name=]image@digest."`
	CommonLabels              map[string]string  `json:"commonLabels,omitzero" description:"Labels for all objects."`
	CommonAnnotations         map[string]string  `json:"commonAnnotations,omitzero" description:"Annotations for all objects."`
	LabelWithoutSelector      bool               `json:"labelWithoutSelector,omitzero" description:"Keeps commonLabels out of selectors."`
	LabelIncludeTemplates     bool               `json:"labelIncludeTemplates,omitzero" description:"Puts commonLabels into templates too, with labelWithoutSelector."`
	ForceCommonLabels         bool               `json:"forceCommonLabels,omitzero" description:"Lets commonLabels replace labels of the kustomization."`
	ForceCommonAnnotations    bool               `json:"forceCommonAnnotations,omitzero" description:"Lets commonAnnotations replace annotations of the kustomization."`
	Namespace                 string             `json:"namespace,omitzero" description:"Namespace of all objects."`
	Replicas                  []KustomizeReplica `json:"replicas,omitzero" description:"Other numbers of replicas."`
	Patches                   []KustomizePatch   `json:"patches,omitzero" description:"Changes to objects."`
	Components                []string           `json:"components,omitzero" description:"Components that are added, by their folders."`
	KubeVersion               string             `json:"kubeVersion,omitzero" description:"Version of Kubernetes for charts of the kustomization."`
	APIVersions               []string           `json:"apiVersions,omitzero" description:"Kinds for charts of the kustomization, as group/version/kind."`
	Version                   Unsupported        `json:"version,omitzero" refused:"there is one version of Kustomize, the built-in one: remove it" description:"Not supported."`
	CommonAnnotationsEnvsubst Unsupported        `json:"commonAnnotationsEnvsubst,omitzero" refused:"variables in annotations are not replaced: write the values out" description:"Not supported."`
	IgnoreMissingComponents   Unsupported        `json:"ignoreMissingComponents,omitzero" refused:"a component that is missing is an error: list the ones that exist" description:"Not supported."`
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
	Target  *KustomizeSelector `json:"target,omitzero" description:"The objects to change. Without it the one that the patch names."`
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
	Recurse bool                      `json:"recurse,omitzero" description:"Reads folders in the folder as well."`
	Include string                    `json:"include,omitzero" description:"Pattern of the files to read; {a,b} is one of several."`
	Exclude string                    `json:"exclude,omitzero" description:"Pattern of the files to leave out. It wins over include."`
	Jsonnet *ApplicationSourceJsonnet `json:"jsonnet,omitzero" description:"How Jsonnet files are evaluated."`
}

// ApplicationSourceJsonnet has the options for evaluating Jsonnet files.
type ApplicationSourceJsonnet struct {
	ExtVars []JsonnetVar `json:"extVars,omitzero" description:"External variables."`
	TLAs    []JsonnetVar `json:"tlas,omitzero" description:"Top-level arguments."`
	Libs    []string     `json:"libs,omitzero" description:"Folders of the repository that imports are looked for in."`
}

// JsonnetVar is a variable for Jsonnet.
type JsonnetVar struct {
	Name  string `json:"name" required:"true" description:"Name of the variable."`
	Value string `json:"value" required:"true" description:"Its value."`
	Code  bool   `json:"code,omitzero" description:"The value is Jsonnet and not text."`
}
