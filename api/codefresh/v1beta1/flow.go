package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The actions of a policy.
const (
	ActionCommit      = "commit"
	ActionPullRequest = "pr"
	ActionNone        = "none"
)

// PromotionFlow is the order of the environments.
type PromotionFlow struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec PromotionFlowSpec `json:"spec"`
}

// PromotionFlowSpec has the environments.
type PromotionFlowSpec struct {
	// A promotion begins with what the Application of this environment is synced to.
	TriggerEnvironment string     `json:"triggerEnvironment" required:"true" description:"The environment that a promotion begins at."`
	Steps              []FlowStep `json:"steps" required:"true" minItems:"1" maxItems:"64" description:"The environments that are promoted to."`
	// The documentation names no unit beside the default of one day; its examples are
	// single numbers, which are hours.
	PromotionTimeoutLimit *int64 `json:"promotionTimeoutLimit,omitempty" minimum:"1" maximum:"8760" description:"Hours after which a promotion fails. Defaults to 24."`
	// Hooks and actions before and behind are refused and not ignored: a flow whose checks
	// do not run would promote what nothing has checked.
	Hooks       *Unsupported `json:"hooks,omitempty" refused:"hooks are workflows of Argo Workflows, which are not run: subscribe to notifications of the Applications" description:"Not supported."`
	PostTrigger *Unsupported `json:"postTrigger,omitempty" refused:"it is a workflow of Argo Workflows, which is not run: use the gates of the Environment" description:"Not supported."`
	Properties  *Unsupported `json:"properties,omitempty" refused:"it is an older form of the documentation: write its fields into spec" description:"Not supported."`
}

// FlowStep is an environment that is promoted to.
type FlowStep struct {
	Environment string `json:"environment" required:"true" description:"The environment."`
	// The order of the list of steps means nothing: dependencies alone decide.
	DependsOn []string        `json:"dependsOn" required:"true" minItems:"1" maxItems:"64" description:"The environments that have to be promoted before."`
	Policy    *PolicySettings `json:"policy,omitempty" description:"How it is promoted; it comes before PromotionPolicies."`
	Hooks     *Unsupported    `json:"hooks,omitempty" refused:"hooks are workflows of Argo Workflows, which are not run: subscribe to notifications of the Applications" description:"Not supported."`
}

// PolicySettings is how an environment is promoted.
type PolicySettings struct {
	// An empty action leaves the decision to PromotionPolicies.
	Action     string       `json:"action,omitempty" enum:",commit,pr,none" description:"commit writes to the branch of the Application, pr opens a pull request, and none waits until others have written it."`
	PreAction  *Unsupported `json:"preAction,omitempty" refused:"it is a workflow of Argo Workflows, which is not run: use approval, windows, healthyFor or traffic of the Environment" description:"Not supported."`
	PostAction *Unsupported `json:"postAction,omitempty" refused:"it is a workflow of Argo Workflows, which is not run: use healthyFor or traffic of the Environment" description:"Not supported."`
}

// PromotionPolicy is how environments are promoted for the products that it selects.
type PromotionPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec PromotionPolicySpec `json:"spec"`
}

// PromotionPolicySpec is a policy with its selector. The one with the highest priority
// counts.
type PromotionPolicySpec struct {
	Priority int64 `json:"priority" required:"true" description:"Which of several policies counts: that with the highest priority."`
	// Codefresh calls a policy without a selector a global one.
	Selector *PolicySelector `json:"selector,omitempty" description:"What the policy is for; everything without it."`
	Policy   PolicySettings  `json:"policy" required:"true" description:"How environments are promoted."`
}

// PolicySelector selects products and environments.
type PolicySelector struct {
	Product           *ProductSelector     `json:"product,omitempty" description:"The products; all without it."`
	TargetEnvironment *EnvironmentSelector `json:"targetEnvironment,omitempty" description:"The environments; all without it."`
}

// ProductSelector selects products.
type ProductSelector struct {
	Names []string     `json:"names,omitempty" maxItems:"256" description:"Names of products."`
	Tags  *Unsupported `json:"tags,omitempty" refused:"products have no tags: use names" description:"Not supported."`
}

// EnvironmentSelector selects environments. All that is given has to match.
type EnvironmentSelector struct {
	Names []string `json:"names,omitempty" maxItems:"256" description:"Names of environments."`
	Types []string `json:"types,omitempty" maxItems:"2" enum:"PROD,NON_PROD" description:"Types of environments: PROD or NON_PROD."`
	// Tags are in the definition, and not in the documentation.
	Tags *Unsupported `json:"tags,omitempty" refused:"environments have no tags: use names or types" description:"Not supported."`
}
