package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/api/refusal"
)

// ApplicationSet makes Applications from a template.
type ApplicationSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   ApplicationSetSpec   `json:"spec"`
	Status ApplicationSetStatus `json:"status,omitzero"`

	// Warnings are the parts that DecodeSet accepted and ignores. They are not
	// part of the object.
	Warnings []refusal.Refusal `json:"-"`
}

// ApplicationSetSpec is the desired state of an ApplicationSet.
type ApplicationSetSpec struct {
	Generators                   []ApplicationSetGenerator   `json:"generators" required:"true" description:"Generators of parameters. Each set of parameters generates one Application."`
	Template                     ApplicationSetTemplate      `json:"template" required:"true" description:"Template of the generated Applications."`
	GoTemplate                   bool                        `json:"goTemplate,omitzero" description:"Use Go templates, such as {{.path.basename}}."`
	GoTemplateOptions            []string                    `json:"goTemplateOptions,omitzero" description:"Options of Go templates, such as missingkey=error."`
	SyncPolicy                   *ApplicationSetSyncPolicy   `json:"syncPolicy,omitzero" description:"How the generated Applications are created, updated and deleted."`
	PreservedFields              *ApplicationPreservedFields `json:"preservedFields,omitzero" description:"Metadata of the Applications that the controller does not overwrite."`
	ApplyNestedSelectors         bool                        `json:"applyNestedSelectors,omitzero" description:"Has no effect: selectors of nested generators always apply."`
	Strategy                     *ApplicationSetStrategy     `json:"strategy,omitzero" description:"Order in which the Applications are synced and deleted."`
	TemplatePatch                string                      `json:"templatePatch,omitzero" description:"Merge patch of each Application, as a template of YAML or JSON. It does not change the project."`
	IgnoreApplicationDifferences []ApplicationSetIgnore      `json:"ignoreApplicationDifferences,omitzero" description:"Fields of the Applications that the controller does not overwrite."`
}

// ApplicationSetIgnore selects fields of generated Applications that others
// change.
type ApplicationSetIgnore struct {
	Name              string   `json:"name,omitzero" description:"Name of the Application. Defaults to all."`
	JSONPointers      []string `json:"jsonPointers,omitzero" description:"Fields as JSON pointers, such as /spec/source/targetRevision."`
	JQPathExpressions []string `json:"jqPathExpressions,omitzero" description:"Fields as jq paths, such as .spec.source.helm.values."`
}

// ApplicationSetStrategy is the order in which Applications are synced and
// deleted.
type ApplicationSetStrategy struct {
	Type          string           `json:"type,omitzero" enum:",AllAtOnce,RollingSync" description:"AllAtOnce or RollingSync. Defaults to AllAtOnce."`
	RollingSync   *RolloutStrategy `json:"rollingSync,omitzero" description:"Steps of the type RollingSync."`
	DeletionOrder string           `json:"deletionOrder,omitzero" enum:",AllAtOnce,Reverse" description:"Reverse deletes the Applications of a deleted set from the last step to the first."`
}

// RolloutStrategy has the steps of a rollout.
type RolloutStrategy struct {
	Steps []RolloutStep `json:"steps,omitzero" description:"Steps. All Applications of one are Healthy before the next begins."`
}

// RolloutStep selects Applications that are synced together.
type RolloutStep struct {
	MatchExpressions []RolloutExpression `json:"matchExpressions,omitzero" description:"Labels of the Applications. All expressions must match."`
	MaxUpdate        *intstr.IntOrString `json:"maxUpdate,omitzero" description:"Number or percentage of Applications that are synced at once. Defaults to all."`
}

// RolloutExpression is a condition on a label.
type RolloutExpression struct {
	Key      string   `json:"key,omitzero" description:"Name of the label."`
	Operator string   `json:"operator,omitzero" enum:"In,NotIn" description:"In or NotIn."`
	Values   []string `json:"values,omitzero" description:"Values of the label."`
}

// IsRolling reports whether syncs start step by step.
func (s *ApplicationSetStrategy) IsRolling() bool {
	return s != nil && s.Type == "RollingSync" && s.RollingSync != nil && len(s.RollingSync.Steps) > 0
}

// IsReverse reports whether Applications are deleted from the last step to the
// first.
func (s *ApplicationSetStrategy) IsReverse() bool {
	return s.IsRolling() && s.DeletionOrder == "Reverse"
}

// ApplicationSetSyncPolicy controls creation, update and deletion of the
// generated Applications.
type ApplicationSetSyncPolicy struct {
	PreserveResourcesOnDeletion bool   `json:"preserveResourcesOnDeletion,omitzero" description:"Keeps the objects of a generated Application when it is deleted."`
	ApplicationsSync            string `json:"applicationsSync,omitzero" enum:",create-only,create-update,create-delete,sync" description:"Operations that are allowed on the Applications. Defaults to sync, which allows all."`
}

// ApplicationPreservedFields lists the fields of generated Applications that
// other writers own.
type ApplicationPreservedFields struct {
	Annotations []string `json:"annotations,omitzero" description:"Names of the preserved annotations."`
	Labels      []string `json:"labels,omitzero" description:"Names of the preserved labels."`
}

// ApplicationSetTemplate is an Application with parameters in its texts.
type ApplicationSetTemplate struct {
	Metadata ApplicationSetTemplateMeta `json:"metadata" required:"true" description:"Name, labels and annotations of the Applications."`
	Spec     ApplicationSpec            `json:"spec" required:"true" description:"Spec of the Applications."`
}

// ApplicationSetTemplateMeta is the metadata of the Applications.
type ApplicationSetTemplateMeta struct {
	Name        string            `json:"name,omitzero" description:"Name of the Application."`
	Namespace   string            `json:"namespace,omitzero" description:"Namespace of the Application. Defaults to the namespace of the ApplicationSet."`
	Labels      map[string]string `json:"labels,omitzero" description:"Labels of the Application."`
	Annotations map[string]string `json:"annotations,omitzero" description:"Annotations of the Application."`
	Finalizers  []string          `json:"finalizers,omitzero" description:"Finalizers of the Application."`
}

// ApplicationSetGenerator is where parameters come from. Exactly one of its
// fields is set, beside selector.
type ApplicationSetGenerator struct {
	InputGenerators `json:",inline"`
	Matrix          *MatrixGenerator      `json:"matrix,omitzero" description:"Combines every set of one generator with every set of another."`
	Merge           *MergeGenerator       `json:"merge,omitzero" description:"Merges sets of several generators that have the same keys."`
	Selector        *metav1.LabelSelector `json:"selector,omitzero" free:"true" description:"Keeps the sets whose parameters match."`
}

// NestedGenerator is a generator in a matrix or merge generator.
type NestedGenerator struct {
	InputGenerators `json:",inline"`
	Matrix          *NestedMatrixGenerator `json:"matrix,omitzero" free:"true" description:"Combines every set of one generator with every set of another."`
	Merge           *NestedMergeGenerator  `json:"merge,omitzero" free:"true" description:"Merges sets of several generators that have the same keys."`
	Selector        *metav1.LabelSelector  `json:"selector,omitzero" free:"true" description:"Keeps the sets whose parameters match."`
}

// TerminalGenerator is a generator in a nested one, where the nesting ends.
type TerminalGenerator struct {
	InputGenerators `json:",inline"`
	Selector        *metav1.LabelSelector `json:"selector,omitzero" free:"true" description:"Keeps the sets whose parameters match."`
}

// InputGenerators are the generators that do not combine others.
type InputGenerators struct {
	List     *ListGenerator    `json:"list,omitzero" description:"A fixed list of parameter sets."`
	Clusters *ClusterGenerator `json:"clusters,omitzero" description:"Generates one set for each cluster."`
	Git      *GitGenerator     `json:"git,omitzero" description:"Generates one set for each directory or file in Git."`

	SCMProvider             *SCMProviderGenerator `json:"scmProvider,omitzero" free:"true" description:"Generates one set for each repository of an owner."`
	PullRequest             *PullRequestGenerator `json:"pullRequest,omitzero" free:"true" description:"Generates one set for each open pull request."`
	Plugin                  *PluginGenerator      `json:"plugin,omitzero" free:"true" description:"Generates the sets that a program responds with."`
	ClusterDecisionResource *DuckTypeGenerator    `json:"clusterDecisionResource,omitzero" free:"true" description:"Generates one set for each cluster that an object lists."`
}

// ListGenerator has parameters that are written out.
type ListGenerator struct {
	Elements     []map[string]any        `json:"elements,omitzero" description:"The sets of parameters."`
	ElementsYaml string                  `json:"elementsYaml,omitzero" description:"The sets of parameters as YAML text."`
	Template     *ApplicationSetTemplate `json:"template,omitzero" free:"true" description:"Overrides the template of the ApplicationSet."`
}

// ClusterGenerator gives one set of parameters for each cluster.
type ClusterGenerator struct {
	Selector *metav1.LabelSelector   `json:"selector,omitzero" free:"true" description:"Label selector of the clusters. Defaults to all, including the local cluster."`
	Values   map[string]string       `json:"values,omitzero" description:"Additional parameters, under values."`
	FlatList bool                    `json:"flatList,omitzero" description:"Generates one set with all clusters under clusters."`
	Template *ApplicationSetTemplate `json:"template,omitzero" free:"true" description:"Overrides the template of the ApplicationSet."`
}

// GitGenerator gives one set of parameters for each folder or file.
type GitGenerator struct {
	RepoURL             string                      `json:"repoURL" required:"true" description:"URL of the repository."`
	Revision            string                      `json:"revision" required:"true" description:"Branch, tag or commit."`
	Directories         []GitDirectoryGeneratorItem `json:"directories,omitzero" description:"Directories, each of which generates a set."`
	Files               []GitFileGeneratorItem      `json:"files,omitzero" description:"JSON or YAML files, each of which generates a set."`
	Values              map[string]string           `json:"values,omitzero" description:"Additional parameters, under values."`
	PathParamPrefix     string                      `json:"pathParamPrefix,omitzero" description:"Prefix of the names of path parameters."`
	RequeueAfterSeconds *int64                      `json:"requeueAfterSeconds,omitzero" description:"Interval in seconds at which Git is polled."`
	Template            *ApplicationSetTemplate     `json:"template,omitzero" free:"true" description:"Overrides the template of the ApplicationSet."`
}

// GitDirectoryGeneratorItem is a pattern of folders.
type GitDirectoryGeneratorItem struct {
	Path    string `json:"path" required:"true" description:"Glob pattern of directories."`
	Exclude bool   `json:"exclude,omitzero" description:"Excludes the directories."`
}

// GitFileGeneratorItem is a pattern of files.
type GitFileGeneratorItem struct {
	Path    string `json:"path" required:"true" description:"Glob pattern of files."`
	Exclude bool   `json:"exclude,omitzero" description:"Excludes the files."`
}

// MatrixGenerator gives every set of one generator with every set of another.
type MatrixGenerator struct {
	Generators []NestedGenerator       `json:"generators" required:"true" description:"Two generators. The second can use the parameters of the first."`
	Template   *ApplicationSetTemplate `json:"template,omitzero" free:"true" description:"Overrides the template of the ApplicationSet."`
}

// NestedMatrixGenerator is a matrix in a matrix or merge generator.
type NestedMatrixGenerator struct {
	Generators []TerminalGenerator `json:"generators" required:"true" description:"Two generators."`
}

// MergeGenerator puts sets of several generators into one.
type MergeGenerator struct {
	Generators []NestedGenerator       `json:"generators" required:"true" description:"The generators. Later ones take precedence."`
	MergeKeys  []string                `json:"mergeKeys" required:"true" description:"Parameters whose values must be equal in sets that are merged."`
	Template   *ApplicationSetTemplate `json:"template,omitzero" free:"true" description:"Overrides the template of the ApplicationSet."`
}

// NestedMergeGenerator is a merge in a matrix or merge generator.
type NestedMergeGenerator struct {
	Generators []TerminalGenerator `json:"generators" required:"true" description:"The generators. Later ones take precedence."`
	MergeKeys  []string            `json:"mergeKeys" required:"true" description:"Parameters whose values must be equal in sets that are merged."`
}

// ApplicationSetStatus is the observed state of an ApplicationSet.
type ApplicationSetStatus struct {
	Conditions        []ApplicationSetCondition         `json:"conditions,omitzero" description:"Errors and warnings."`
	ApplicationStatus []ApplicationSetApplicationStatus `json:"applicationStatus,omitzero" description:"Status of each Application."`
	Resources         []ResourceStatus                  `json:"resources,omitzero" description:"The Applications."`
	ResourcesCount    int64                             `json:"resourcesCount,omitzero" description:"Number of Applications."`
	Health            *HealthStatus                     `json:"health,omitzero" description:"Aggregated health of the Applications."`
}

// The types of conditions of an ApplicationSet.
const (
	SetConditionErrorOccurred       = "ErrorOccurred"
	SetConditionParametersGenerated = "ParametersGenerated"
	SetConditionResourcesUpToDate   = "ResourcesUpToDate"
	SetConditionRolloutProgressing  = "RolloutProgressing"
	// SetConditionIgnoredFieldWarning is not one of Argo CD's. It is there only
	// while some field of the spec has no effect.
	SetConditionIgnoredFieldWarning = "IgnoredFieldWarning"
)

// ApplicationSetCondition is an error or a warning.
type ApplicationSetCondition struct {
	Type               string       `json:"type" description:"Type of the condition, such as ErrorOccurred."`
	Status             string       `json:"status" description:"True, False or Unknown."`
	Reason             string       `json:"reason" description:"Machine-readable reason, as one CamelCase word."`
	Message            string       `json:"message" description:"Human-readable message with the cause and the fix."`
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitzero" description:"When the status last changed."`
}

// ApplicationSetApplicationStatus is how one Application of a set is.
type ApplicationSetApplicationStatus struct {
	Application        string       `json:"application" description:"Name of the Application."`
	Status             string       `json:"status" description:"Waiting, Pending, Progressing or Healthy."`
	Message            string       `json:"message" description:"Human-readable reason."`
	Step               string       `json:"step" description:"Step of the rollout."`
	TargetRevisions    []string     `json:"targetRevisions,omitzero" description:"Target revisions of the Application."`
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitzero" description:"When the status last changed."`
}
