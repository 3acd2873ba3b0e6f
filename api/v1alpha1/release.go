package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindRelease and ResourceRelease name the kind and its resource.
const (
	KindRelease     = "Release"
	ResourceRelease = "releases"
)

// The names of the two revisions of a Release.
const (
	RevisionStable = "stable"
	RevisionCanary = "canary"
)

// What the weights of a Release count.
const (
	ReleaseByRequest = "request"
	ReleaseByClient  = "client"
)

// Phases of a Release.
const (
	ReleaseProgressing = "Progressing"
	ReleasePaused      = "Paused"
	ReleaseSucceeded   = "Succeeded"
	ReleaseRolledBack  = "RolledBack"
	ReleaseHeld        = "Held"
)

// Outcomes of a ReleaseDecision.
const (
	DecisionWait = "Wait"
	DecisionPass = "Pass"
	DecisionFail = "Fail"
)

// Release divides the requests of a workload between two of its revisions, while both
// run. The agent writes it and the edge reads it; people read its status.
type Release struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ReleaseSpec   `json:"spec"`
	Status ReleaseStatus `json:"status,omitzero"`
}

// ReleaseSpec has the shares of the revisions.
type ReleaseSpec struct {
	Workload  Workload          `json:"workload" required:"true" description:"The workload whose revisions share requests, in the namespace of the Release."`
	Revisions []ReleaseRevision `json:"revisions" required:"true" minItems:"2" maxItems:"2" description:"The two revisions: stable, then canary."`
	Match     *ReleaseMatch     `json:"match,omitempty" description:"Requests that go to a revision whatever the weights are, for previews."`
	By        string            `json:"by,omitempty" default:"request" enum:"request,client" description:"What the weights divide: requests, or clients by a hash of their address, so that a client stays with a revision."`
}

// Workload names an object that makes Pods.
type Workload struct {
	APIVersion string `json:"apiVersion" required:"true" maxLength:"253" description:"Group and version, such as apps/v1."`
	Kind       string `json:"kind" required:"true" maxLength:"63" description:"Kind, such as Deployment."`
	Name       string `json:"name" required:"true" maxLength:"253" description:"Name of the object."`
}

// ReleaseRevision is a revision of the workload with its share.
type ReleaseRevision struct {
	Name       string `json:"name" required:"true" enum:"stable,canary" description:"Which of the two revisions it is."`
	Hash       string `json:"hash" required:"true" maxLength:"63" pattern:"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$" description:"Value of the label pod-template-hash of its Pods."`
	ReplicaSet string `json:"replicaSet" required:"true" maxLength:"63" description:"UID of the ReplicaSet that controls its Pods."`
	Weight     int32  `json:"weight,omitempty" minimum:"0" maximum:"10000" description:"Share of the requests, relative to the other weight. A revision without ready endpoints gets none."`
	Commit     string `json:"commit,omitempty" maxLength:"64" pattern:"^[0-9A-Za-z._-]*$" description:"Git commit that the revision was made from."`
}

// ReleaseMatch selects requests for a revision. A header takes precedence over a
// cookie.
type ReleaseMatch struct {
	Header *ReleaseMatchValue `json:"header,omitempty" description:"A header of the request."`
	Cookie *ReleaseMatchValue `json:"cookie,omitempty" description:"A cookie of the request."`
}

// ReleaseMatchValue is a header or a cookie with its value.
type ReleaseMatchValue struct {
	Name  string `json:"name" required:"true" maxLength:"128" pattern:"^[!#$%&'*+.^_|~0-9A-Za-z-]+$" description:"Name of the header or cookie."`
	Value string `json:"value,omitempty" maxLength:"256" description:"Value that selects the canary. By default, the value is the name of a revision, or its commit, of which 7 characters are enough."`
}

// ReleaseStatus is the progress of a Release. The agent writes it.
type ReleaseStatus struct {
	ObservedGeneration int64                   `json:"observedGeneration,omitempty" description:"Generation of the object that the status is about."`
	Phase              string                  `json:"phase,omitempty" enum:"Progressing,Paused,Succeeded,RolledBack,Held" description:"Summary of the progress."`
	Step               int32                   `json:"step,omitempty" description:"Number of the current step, from 1."`
	Steps              int32                   `json:"steps,omitempty" description:"Number of steps."`
	Message            string                  `json:"message,omitempty" description:"What happens, or what is waited for."`
	StartedAt          *metav1.Time            `json:"startedAt,omitempty" description:"Start of the release."`
	StepStartedAt      *metav1.Time            `json:"stepStartedAt,omitempty" description:"Start of the current step."`
	FinishedAt         *metav1.Time            `json:"finishedAt,omitempty" description:"End of the release."`
	Decision           *ReleaseDecision        `json:"decision,omitempty" description:"Last decision of the judge."`
	Revisions          []ReleaseRevisionStatus `json:"revisions,omitempty" maxItems:"2" description:"What the revisions served since the release started."`
	Conditions         []metav1.Condition      `json:"conditions,omitempty" maxItems:"16" description:"Conditions."`
	State              string                  `json:"state,omitempty" description:"What an agent needs to continue the comparison of the revisions after a restart. Its form may change."`
}

// ReleaseDecision is a decision of the judge.
type ReleaseDecision struct {
	Outcome string       `json:"outcome,omitempty" enum:"Wait,Pass,Fail" description:"Whether the canary passes, fails, or has served too few requests to decide."`
	Reason  string       `json:"reason,omitempty" description:"Reason in CamelCase."`
	Message string       `json:"message,omitempty" description:"The numbers behind the decision."`
	At      *metav1.Time `json:"at,omitempty" description:"Time of the decision."`
}

// ReleaseRevisionStatus is the traffic of a revision. There are whole numbers only, as
// in every API of Kubernetes.
type ReleaseRevisionStatus struct {
	Name      string `json:"name" required:"true" enum:"stable,canary" description:"Which of the two revisions it is."`
	Hash      string `json:"hash,omitempty" description:"Value of the label pod-template-hash of its Pods."`
	Commit    string `json:"commit,omitempty" description:"Git commit that the revision was made from."`
	Weight    int32  `json:"weight,omitempty" description:"Its share."`
	Ready     int32  `json:"ready,omitempty" description:"Number of its ready Pods."`
	Requests  int64  `json:"requests,omitempty" description:"Number of requests."`
	Errors    int64  `json:"errors,omitempty" description:"Number of requests that failed."`
	P50Micros int64  `json:"p50Micros,omitempty" description:"Median of the latency in microseconds."`
	P99Micros int64  `json:"p99Micros,omitempty" description:"99th percentile of the latency in microseconds."`
}
