package release

import (
	"time"

	"slipway.dev/slipway/api/v1alpha1"
)

// Annotation turns the sync of a Deployment into a release. It is on the
// Deployment, or on the Application for all of its Deployments. The value is
// canary, blue-green, or the name of a ReleasePolicy beside the Deployment.
const Annotation = "slipway.dev/release"

// The policies that need no object.
const (
	Canary    = "canary"
	BlueGreen = "blue-green"
)

// Policy is how a revision is released.
type Policy struct {
	Steps []Step
	// Full: the canary has all of its Pods from the first step on.
	Full bool
	// Unjudged: steps end by their hold and requests alone.
	Unjudged bool
	Guards   v1alpha1.ReleaseGuards
	Match    *v1alpha1.ReleaseMatch
	By       string
	// ReadyTimeout is how long Pods of the canary may be missing; zero is the
	// progress deadline of the Deployment.
	ReadyTimeout time.Duration
}

// Step is a share and what ends it.
type Step struct {
	Weight int32
	// Hold is the least time, and Requests the least number of requests of the
	// canary, since the share was set.
	Hold     time.Duration
	Requests int64
	// Pause waits for a user.
	Pause bool
}

// Default returns the policy of a name; false if a ReleasePolicy has it.
func Default(name string) (*Policy, bool) {
	switch name {
	case Canary:
		return &Policy{Steps: defaultSteps()}, true
	case BlueGreen:
		return &Policy{Full: true, Steps: []Step{{Pause: true}}}, true
	}
	return nil, false
}

// defaultSteps are those of a canary.
func defaultSteps() []Step {
	return []Step{
		{Weight: 5, Hold: 10 * time.Second, Requests: 100},
		{Weight: 25, Hold: 10 * time.Second, Requests: 500},
		{Weight: 50, Hold: 10 * time.Second, Requests: 500},
	}
}

// FromSpec returns the policy of a ReleasePolicy.
func FromSpec(spec *v1alpha1.ReleasePolicySpec) *Policy {
	policy := &Policy{
		Full: spec.Strategy == BlueGreen, Unjudged: spec.Unjudged, Match: spec.Match, By: spec.By,
		ReadyTimeout: time.Duration(spec.ReadyTimeout),
	}
	if spec.Guards != nil {
		policy.Guards = *spec.Guards
	}
	for _, step := range spec.Steps {
		policy.Steps = append(policy.Steps, Step{
			Weight: step.Weight, Hold: time.Duration(step.Hold), Requests: step.Requests, Pause: step.Pause,
		})
	}
	if len(policy.Steps) == 0 && policy.Full {
		policy.Steps = []Step{{Pause: true}}
	}
	if len(policy.Steps) == 0 {
		policy.Steps = defaultSteps()
	}
	return policy
}

// step returns a step by its number, from 1. The one after the last gives the
// canary everything.
func (p *Policy) step(number int32) Step {
	if int(number) <= len(p.Steps) {
		return p.Steps[max(number, 1)-1]
	}
	return Step{Weight: whole}
}

// count is the number of steps, with the last one, which gives everything.
func (p *Policy) count() int32 { return int32(len(p.Steps)) + 1 }

// whole is the weight of everything.
const whole = 100

// percent is the size of the canary in a step, of the Deployment's replicas.
func (p *Policy) percent(number int32) int32 {
	if p.Full {
		return whole
	}
	return min(max(p.step(number).Weight, 1), whole)
}

// size is the number of Pods of the canary in a step. It is rounded as
// Kubernetes rounds maxSurge.
func (p *Policy) size(number, replicas int32) int32 {
	return (replicas*p.percent(number) + whole - 1) / whole
}
