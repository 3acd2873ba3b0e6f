package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindReleasePolicy and ResourceReleasePolicy name the kind and its resource.
const (
	KindReleasePolicy     = "ReleasePolicy"
	ResourceReleasePolicy = "releasepolicies"
)

// ReleasePolicy is how new revisions of the Deployments that name it are released.
type ReleasePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ReleasePolicySpec `json:"spec"`
}

// ReleasePolicySpec has the steps of a release and what ends them.
type ReleasePolicySpec struct {
	Strategy     string              `json:"strategy,omitempty" default:"canary" enum:"canary,blue-green" description:"canary makes Pods of the new revision for its share; blue-green makes all of them before the first request."`
	Steps        []ReleasePolicyStep `json:"steps,omitempty" maxItems:"32" description:"Shares of the new revision. After the last one it gets everything. Defaults to 5, 25 and 50 percent for canary, and to a pause without a share for blue-green."`
	Unjudged     bool                `json:"unjudged,omitempty" description:"Ends steps by their hold and requests alone, without a comparison of both revisions."`
	Guards       *ReleaseGuards      `json:"guards,omitempty" description:"Limits of the comparison."`
	Match        *ReleaseMatch       `json:"match,omitempty" description:"Requests that go to the new revision whatever its share is, for previews."`
	By           string              `json:"by,omitempty" default:"request" enum:"request,client" description:"What the shares divide: requests, or clients by a hash of their address."`
	ReadyTimeout Duration            `json:"readyTimeout,omitempty" description:"How long Pods of the new revision may be missing before everything goes back. Defaults to the progressDeadlineSeconds of the Deployment."`
}

// ReleasePolicyStep is one share.
type ReleasePolicyStep struct {
	Weight   int32    `json:"weight,omitempty" minimum:"0" maximum:"100" description:"Percentage of the requests."`
	Hold     Duration `json:"hold,omitempty" description:"Least time of the step."`
	Requests int64    `json:"requests,omitempty" minimum:"0" description:"Least number of requests of the new revision in the step. Without traffic the step waits."`
	Pause    bool     `json:"pause,omitempty" description:"Waits until a user promotes the release."`
}

// ReleaseGuards are the limits of the comparison of both revisions.
type ReleaseGuards struct {
	ErrorPoints     int32    `json:"errorPoints,omitempty" minimum:"0" maximum:"100" description:"Tolerated difference of the error rates, in percentage points. Defaults to 1."`
	LatencyPercent  int32    `json:"latencyPercent,omitempty" minimum:"0" maximum:"10000" description:"Tolerated latency of the new revision, in percent of the other. Defaults to 150."`
	LatencyIncrease Duration `json:"latencyIncrease,omitempty" description:"Difference of the latencies that is tolerated in any case. Defaults to 1ms."`
	MinRequests     int64    `json:"minRequests,omitempty" minimum:"0" description:"Requests of the new revision that are compared before it passes. Defaults to 100."`
}
