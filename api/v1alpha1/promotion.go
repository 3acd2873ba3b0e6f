package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindPromotion and ResourcePromotion name the kind and its resource.
const (
	KindPromotion     = "Promotion"
	ResourcePromotion = "promotions"
)

// Phases of a Promotion.
const (
	PromotionPending     = "Pending"
	PromotionProgressing = "Progressing"
	PromotionSucceeded   = "Succeeded"
	PromotionFailed      = "Failed"
	PromotionAborted     = "Aborted"
)

// Phases of a step of a Promotion.
const (
	// StepPending: environments before it are not promoted yet.
	StepPending = "Pending"
	// StepWaiting: an approval or a window is waited for.
	StepWaiting = "Waiting"
	// StepWriting: commits are being written. Status has where.
	StepWriting = "Writing"
	// StepReviewing: a pull request is open.
	StepReviewing = "Reviewing"
	// StepVerifying: the Applications get what was written, and gates are waited for.
	StepVerifying = "Verifying"
	StepSucceeded = "Succeeded"
	StepFailed    = "Failed"
	// StepSkipped: the promotion ended before it.
	StepSkipped = "Skipped"
)

// VerbApprove is the verb of the right to approve promotions to an Environment.
const VerbApprove = "approve"

// Promotion moves one version of a Product through the environments of a flow. It is
// one run: people create it, approve it and abort it, and the agent writes its status.
type Promotion struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PromotionSpec   `json:"spec"`
	Status PromotionStatus `json:"status,omitzero"`
}

// PromotionSpec is what is promoted.
type PromotionSpec struct {
	Product string `json:"product" required:"true" maxLength:"253" description:"Name of the Product of Codefresh, in the namespace of the Promotion."`
	Flow    string `json:"flow,omitempty" maxLength:"253" description:"Name of the PromotionFlow. By default it is the first flow of the Product that is for the commit of the trigger environment."`
	// By is informational: the audit log of the API server has who created the object.
	By        string              `json:"by,omitempty" maxLength:"253" description:"Who started it."`
	Approvals []PromotionApproval `json:"approvals,omitempty" maxItems:"64" description:"Approvals of environments."`
	// It is a field and no deletion, so that the record of what was written stays.
	Abort bool `json:"abort,omitempty" description:"Ends the promotion. What was written stays."`
}

// PromotionApproval lets a promotion be written to an environment.
type PromotionApproval struct {
	Environment string `json:"environment" required:"true" maxLength:"253" description:"The environment."`
	By          string `json:"by" required:"true" maxLength:"253" description:"Name of the user who approved, as the API server knows it."`
}

// PromotionStatus is the progress of a Promotion. The agent records in it what it is
// about to write, so that another process can continue.
type PromotionStatus struct {
	ObservedGeneration int64  `json:"observedGeneration,omitempty" description:"Generation of the object that the status is about."`
	Phase              string `json:"phase,omitempty" enum:"Pending,Progressing,Succeeded,Failed,Aborted" description:"Summary of the progress."`
	Message            string `json:"message,omitempty" description:"What happens, or what is waited for."`
	Flow               string `json:"flow,omitempty" description:"Name of the PromotionFlow."`
	Version            string `json:"version,omitempty" description:"Version that is promoted, from the versionSource of the template."`
	// The source is fixed at the beginning and does not follow its branch.
	Source *PromotionSource `json:"source,omitempty" description:"Where the version comes from."`
	// Steps are a copy of the flow: a change of the flow does not affect a run.
	Steps      []PromotionStep    `json:"steps,omitempty" maxItems:"64" description:"The environments, in the order of the flow."`
	StartedAt  *metav1.Time       `json:"startedAt,omitempty" description:"Start of the promotion."`
	DeadlineAt *metav1.Time       `json:"deadlineAt,omitempty" description:"When it fails if it has not ended."`
	FinishedAt *metav1.Time       `json:"finishedAt,omitempty" description:"End of the promotion."`
	Conditions []metav1.Condition `json:"conditions,omitempty" maxItems:"16" description:"Conditions."`
}

// PromotionSource is an Application of the trigger environment at a revision. Files are
// read at that revision for all environments.
type PromotionSource struct {
	Environment string `json:"environment" required:"true" description:"The trigger environment."`
	Namespace   string `json:"namespace" required:"true" description:"Namespace of the Application."`
	Application string `json:"application" required:"true" description:"Name of the Application."`
	Revision    string `json:"revision" required:"true" description:"Commit that the Application was synced to."`
	// A version is not started twice by itself, whatever commits come behind it.
	Values string `json:"values,omitempty" description:"Digest of the values that are promoted."`
}

// PromotionStep is an environment of a Promotion.
type PromotionStep struct {
	Environment string   `json:"environment" required:"true" description:"The environment."`
	DependsOn   []string `json:"dependsOn,omitempty" description:"Environments that are promoted before."`
	Action      string   `json:"action,omitempty" description:"commit, pr or none."`
	Phase       string   `json:"phase,omitempty" enum:"Pending,Waiting,Writing,Reviewing,Verifying,Succeeded,Failed,Skipped" description:"Summary of the progress."`
	Message     string   `json:"message,omitempty" description:"What happens, or what is waited for."`
	ApprovedBy  string   `json:"approvedBy,omitempty" description:"Who approved it."`
	// The list is fixed at the beginning, so that an Application that is added later does
	// not hold up a run.
	Applications []string         `json:"applications,omitempty" description:"The Applications, as namespace/name."`
	Writes       []PromotionWrite `json:"writes,omitempty" maxItems:"64" description:"The branches that are written to."`
	// Requests and errors are counted from then on, in memory; the last numbers are here.
	HealthySince *metav1.Time `json:"healthySince,omitempty" description:"Since when the Applications are Synced and Healthy with what is promoted."`
	Requests     int64        `json:"requests,omitempty" description:"Number of requests that the edges counted for the gate."`
	Errors       int64        `json:"errors,omitempty" description:"Number of those that failed."`
	StartedAt    *metav1.Time `json:"startedAt,omitempty" description:"When it was begun."`
	FinishedAt   *metav1.Time `json:"finishedAt,omitempty" description:"When it ended."`
}

// PromotionWrite is a commit to one branch.
type PromotionWrite struct {
	Repository string `json:"repository" required:"true" description:"Address of the repository."`
	Branch     string `json:"branch,omitempty" description:"The branch; empty for the default one."`
	Target     string `json:"target,omitempty" description:"The branch that a pull request is for; empty for the default one."`
	// Base is recorded before the commit is pushed: another process searches from there
	// for the commit, before it makes one.
	Base   string `json:"base,omitempty" description:"The newest commit before."`
	Commit string `json:"commit,omitempty" description:"The commit; empty if there was nothing to change."`
	// Done without a Commit: the branch had the values already.
	Done        bool   `json:"done,omitempty" description:"Whether it has ended."`
	PullRequest string `json:"pullRequest,omitempty" description:"Address of the pull request."`
}
