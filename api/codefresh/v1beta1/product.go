package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Unsupported is the type of a field that Codefresh has and we do not. It has no
// content, as any value is refused.
type Unsupported struct{}

// Product is what Applications of several environments are versions of. An Application
// names it in the label or annotation LabelProduct.
type Product struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec ProductSpec `json:"spec"`

	// Automatic: AnnotationStart has a value other than manual. A misspelt one is refused.
	Automatic bool `json:"-"`
}

// ProductSpec is what is promoted, and by which flows. Of a reference and an inline
// template the reference counts.
type ProductSpec struct {
	// Without a reference and a template of its own, the templates that select the
	// Applications by their labels count.
	PromotionTemplateRef string            `json:"promotionTemplateRef,omitempty" description:"Name of the PromotionTemplate of the product."`
	PromotionTemplate    *TemplateContents `json:"promotionTemplate,omitempty" description:"What is promoted, in place of a PromotionTemplate."`
	// Flows without selectors are for every commit.
	PromotionFlows []ProductFlow `json:"promotionFlows,omitempty" maxItems:"64" description:"The flows of the product. The first one whose selectors match is used."`
	// Concurrency is a field of v1beta2, which the definition keeps in v1beta1 too.
	Concurrency *Unsupported `json:"concurrency,omitempty" refused:"promotions of a product wait for each other, the oldest first: remove the field" description:"Not supported."`
}

// TemplateContents are the files and fields that are promoted.
type TemplateContents struct {
	// The version decides nothing: it is shown in messages, lists and the console.
	VersionSource *VersionSource `json:"versionSource,omitempty" description:"Where the version is, which people see."`
	// Codefresh promotes all files if it is empty, which we refuse when a Promotion begins.
	Promotion map[string]PromotionFile `json:"promotion,omitempty" description:"The files that are promoted, by their path below that of the Application."`
}

// VersionSource is a field of a file.
type VersionSource struct {
	File string `json:"file" required:"true" maxLength:"1024" description:"Path of the file, below that of the Application."`
	// An example of the documentation has $appVersion, without the dot.
	JSONPath string `json:"jsonPath" required:"true" maxLength:"1024" description:"The field, such as $.appVersion."`
}

// PromotionFile names the fields of a file.
type PromotionFile struct {
	// The paths are parsed when a Promotion begins, and refused by their place in the list.
	JSONPaths []string `json:"jsonPaths" required:"true" minItems:"1" maxItems:"64" description:"The fields, such as $.image.tag or $..image."`
}

// ProductFlow is a PromotionFlow with the commits that it is for.
type ProductFlow struct {
	Name                string               `json:"name" required:"true" description:"Name of the PromotionFlow."`
	GitTriggerSelectors []GitTriggerSelector `json:"gitTriggerSelectors,omitempty" maxItems:"64" description:"The commits of the trigger environment that the flow is for; all of the selectors have to match."`
}

// The keys and operators of a GitTriggerSelector.
const (
	KeyCommitMessage = "commitMessage"
	KeyGitRevision   = "gitRevision"
	OperatorIn       = "In"
	OperatorNotIn    = "NotIn"
)

// GitTriggerSelector selects commits.
type GitTriggerSelector struct {
	Key      string `json:"key" required:"true" enum:"commitMessage,gitRevision" description:"What is compared: commitMessage or gitRevision."`
	Operator string `json:"operator" required:"true" enum:"In,NotIn" description:"In or NotIn."`
	// One of the values is enough for In, and none may match for NotIn.
	Values []string `json:"values" required:"true" minItems:"1" maxItems:"64" description:"The values; * stands for any text."`
}

// PromotionTemplate names what is promoted for the Applications that it selects.
type PromotionTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec PromotionTemplateSpec `json:"spec"`
}

// PromotionTemplateSpec is a template with its selector. Of several templates, the one
// with the higher priority counts for a file that both have.
type PromotionTemplateSpec struct {
	// An empty selector selects every Application, as in Kubernetes.
	ApplicationSourceSelector LabelSelector            `json:"applicationSourceSelector" required:"true" description:"The Applications of target environments that the template is for, by their labels."`
	Priority                  int64                    `json:"priority" required:"true" description:"Which of several templates counts: that with the highest priority."`
	VersionSource             *VersionSource           `json:"versionSource,omitempty" description:"Where the version is, which people see."`
	Promotion                 map[string]PromotionFile `json:"promotion,omitempty" description:"The files that are promoted, by their path below that of the Application."`
}

// LabelSelector is that of Kubernetes.
type LabelSelector struct {
	MatchLabels      map[string]string  `json:"matchLabels,omitempty" description:"Labels with their values."`
	MatchExpressions []LabelRequirement `json:"matchExpressions,omitempty" maxItems:"64" description:"Requirements of labels."`
}

// LabelRequirement is a requirement of one label.
type LabelRequirement struct {
	Key      string   `json:"key" required:"true" description:"The label."`
	Operator string   `json:"operator" required:"true" enum:"In,NotIn,Exists,DoesNotExist" description:"In, NotIn, Exists or DoesNotExist."`
	Values   []string `json:"values,omitempty" maxItems:"64" description:"The values of In and NotIn."`
}

// Selector converts it to the type of Kubernetes.
func (s *LabelSelector) Selector() *metav1.LabelSelector {
	// The type of Kubernetes is not declared here, because its tags have no bounds and
	// no descriptions.
	made := &metav1.LabelSelector{MatchLabels: s.MatchLabels}
	for _, one := range s.MatchExpressions {
		made.MatchExpressions = append(made.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: one.Key, Operator: metav1.LabelSelectorOperator(one.Operator), Values: one.Values,
		})
	}
	return made
}
