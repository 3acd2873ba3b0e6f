package progressive

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rollouts "slipway.dev/slipway/api/rollouts/v1alpha1"
)

const (
	// workloadGeneration is the generation of the workload that a Rollout refers
	// to, as its controller copies it.
	workloadGeneration = "rollout.argoproj.io/workload-generation"
	// defaultMaxWeight is the weight of all requests, unless the traffic router has
	// another one.
	defaultMaxWeight = 100
	strategyCanary   = "Canary"
	strategyBlue     = "BlueGreen"
)

// rollout is a decoded Rollout. Fields that we refuse are left out: another
// controller may run it.
type rollout struct{ *rollouts.Rollout }

func decodeRollout(object *unstructured.Unstructured) (*rollout, error) {
	decoded, _, err := rollouts.Decode(object.Object)
	return &rollout{decoded}, err
}

func rolloutState(object *unstructured.Unstructured) (*State, error) {
	r, err := decodeRollout(object)
	if err != nil {
		return nil, err
	}
	state := &State{Replicas: &Replicas{
		Desired: 1, // the default of the kind
		Current: r.Status.Replicas, Updated: r.Status.UpdatedReplicas,
		Ready: r.Status.ReadyReplicas, Available: r.Status.AvailableReplicas,
	}}
	if r.Spec.Replicas != nil {
		state.Replicas.Desired = *r.Spec.Replicas
	}
	state.Phase, state.Message = r.phase()
	switch {
	case r.Spec.Strategy.Canary != nil:
		state.Strategy = strategyCanary
		// The steps as they were written: those that we refuse are shown too.
		steps, _, _ := unstructured.NestedSlice(object.Object, "spec", "strategy", "canary", "steps")
		for _, step := range steps {
			state.StepNames = append(state.StepNames, stepName(step))
		}
		state.Steps = int32(len(steps))
		state.Step = min(r.step(), state.Steps)
		weight := r.setWeight()
		state.Weight = &weight
	case r.Spec.Strategy.BlueGreen != nil:
		state.Strategy = strategyBlue
	}
	return state, nil
}

// phase returns the phase and message that the controller wrote, unless it has
// not seen the last change: then they are about an older spec.
func (r *rollout) phase() (phase, message string) {
	switch {
	case !r.observed():
		return rollouts.PhaseProgressing, "waiting for rollout spec update to be observed"
	case r.Status.ControllerPause && len(r.Status.PauseConditions) == 0:
		return rollouts.PhaseProgressing, "waiting for rollout to unpause"
	case !r.workloadObserved():
		return rollouts.PhaseProgressing, "waiting for rollout spec update to be observed for the reference workload"
	case r.Status.Phase == "":
		return rollouts.PhaseProgressing, "waiting for the controller of Rollouts"
	}
	return r.Status.Phase, r.Status.Message
}

// observed reports whether the status is about the current spec. A status with a
// higher generation than the spec's is one of a very old controller, which wrote
// a hash instead.
func (r *rollout) observed() bool {
	seen, err := strconv.ParseInt(r.Status.ObservedGeneration, 10, 64)
	return err != nil || seen >= r.Generation
}

func (r *rollout) workloadObserved() bool {
	wanted, found := r.Annotations[workloadGeneration]
	return r.Spec.WorkloadRef == nil || !found || r.Status.WorkloadObservedGeneration == "" || wanted == r.Status.WorkloadObservedGeneration
}

// step is the index of the current step; it is the number of steps at the end.
func (r *rollout) step() int32 {
	if r.Status.CurrentStepIndex == nil {
		return 0
	}
	return *r.Status.CurrentStepIndex
}

// nextStep is the index that a promotion sets, and false without steps.
func (r *rollout) nextStep() (int32, bool) {
	if r.Spec.Strategy.Canary == nil || len(r.Spec.Strategy.Canary.Steps) == 0 {
		return 0, false
	}
	index := r.step()
	if int(index) < len(r.Spec.Strategy.Canary.Steps) {
		index++
	}
	return index, true
}

// maxWeight is the weight of all requests.
func (r *rollout) maxWeight() int32 {
	if canary := r.Spec.Strategy.Canary; canary != nil && canary.TrafficRouting != nil && canary.TrafficRouting.MaxTrafficWeight != nil {
		return *canary.TrafficRouting.MaxTrafficWeight
	}
	return defaultMaxWeight
}

// setWeight is the weight that the steps request for the canary: that of the last
// setWeight up to the current step.
func (r *rollout) setWeight() int32 {
	if r.Status.Abort {
		return 0
	}
	steps := r.Spec.Strategy.Canary.Steps
	if int(r.step()) >= len(steps) {
		return r.maxWeight()
	}
	for i := r.step(); i >= 0; i-- {
		if weight := steps[i].SetWeight; weight != nil {
			return *weight
		}
	}
	return 0
}

// inconclusive reports whether an analysis at the current step ended without a
// result: a promotion then skips the step as well.
func (r *rollout) inconclusive() bool {
	run := r.Status.Canary.CurrentStepAnalysisRunStatus
	return r.Spec.Strategy.Canary != nil && run != nil && run.Status == string(rollouts.AnalysisPhaseInconclusive)
}

// stepName describes a step: its one field, with the value if that is short.
func stepName(step any) string {
	fields, _ := step.(map[string]any)
	for name, value := range fields {
		switch value := value.(type) {
		case map[string]any:
			for _, detail := range []string{"duration", "name", "replicas", "weight"} {
				if text, found := value[detail]; found {
					return fmt.Sprintf("%s %v", name, text)
				}
			}
			return name
		default:
			return fmt.Sprintf("%s %v", name, value)
		}
	}
	return "invalid"
}
