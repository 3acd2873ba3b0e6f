package rollout

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// invalid is why the Rollout is left alone; empty if it is not.
func (p *pass) invalid() string {
	if len(p.seen.Refused) > 0 {
		first := p.seen.Refused[0]
		return first.Field + ": " + first.Message
	}
	if p.seen.Unresolved != "" {
		return p.seen.Unresolved
	}
	for _, check := range []func() string{p.invalidTemplate, p.invalidStrategy, p.missingServices, p.missingRoutes, p.invalidAnalysis} {
		if problem := check(); problem != "" {
			return problem
		}
	}
	return ""
}

// reportInvalid writes the condition InvalidSpec. Services that do not exist yet may
// be created later.
func (p *pass) reportInvalid(problem string) {
	message := fmt.Sprintf(messageInvalidRollout, p.rollout.Name, problem)
	p.again(retryInvalid)
	before := conditionOf(p.old, v1alpha1.ConditionInvalidSpec)
	if before != nil && before.Message == message && p.old.ObservedGeneration == strconv.FormatInt(p.rollout.Generation, 10) {
		return
	}
	if before == nil || before.Message != message {
		p.warn(reasonInvalidSpec, "%s", message)
	}
	// The same reason with another message is a change here.
	removeCondition(p.old, v1alpha1.ConditionInvalidSpec)
	p.writeConditions(p.condition(v1alpha1.ConditionInvalidSpec, yes, reasonInvalidSpec, message))
}

// invalidTemplate checks selector, template and numbers.
func (p *pass) invalidTemplate() string {
	spec := p.spec
	switch {
	case spec.Selector == nil:
		return "spec.selector: Required value: Rollout has missing field '.spec.selector'"
	case len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) == 0:
		return "spec.selector: Invalid value: empty selector is invalid for deployment"
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	switch {
	case err != nil:
		return "spec.selector: Invalid value: " + err.Error()
	case !selector.Matches(labels.Set(spec.Template.Labels)):
		return "spec.template.metadata.labels: Invalid value: `selector` does not match template `labels`"
	case len(spec.Template.Spec.Containers) == 0:
		return "spec.template.spec.containers: Required value"
	case spec.ProgressDeadlineSeconds != nil && *spec.ProgressDeadlineSeconds <= spec.MinReadySeconds:
		return "spec.progressDeadlineSeconds: Invalid value: must be greater than minReadySeconds"
	}
	return ""
}

// invalidStrategy checks that there is one strategy, and its fields.
func (p *pass) invalidStrategy() string {
	strategy := p.spec.Strategy
	switch {
	case strategy.BlueGreen == nil && strategy.Canary == nil:
		return "spec.strategy.strategy: Required value: Rollout has missing field '.spec.strategy.canary or .spec.strategy.blueGreen'"
	case strategy.BlueGreen != nil && strategy.Canary != nil:
		return "spec.strategy.strategy: Invalid value: Multiple Strategies can not be listed"
	case strategy.Canary != nil:
		return p.invalidCanary()
	case strategy.BlueGreen.ActiveService == strategy.BlueGreen.PreviewService:
		return "spec.strategy.activeService: Invalid value: This rollout uses the same service for the active and preview services, but two different services are required."
	}
	return ""
}

// invalidCanary checks the fields of a canary.
func (p *pass) invalidCanary() string {
	canary := p.spec.Strategy.Canary
	routing := canary.TrafficRouting
	for name, value := range map[string]*intstr.IntOrString{"maxSurge": canary.MaxSurge, "maxUnavailable": canary.MaxUnavailable} {
		if value == nil {
			continue
		}
		if _, err := intstr.GetScaledValueFromIntOrPercent(value, 100, true); err != nil {
			return "spec.strategy." + name + ": Invalid value: " + err.Error()
		}
	}
	switch {
	case isZero(canary.MaxSurge) && isZero(canary.MaxUnavailable):
		return "spec.strategy.maxSurge: Invalid value: MaxSurge and MaxUnavailable both can not be zero"
	case canary.CanaryService != "" && canary.CanaryService == canary.StableService:
		return "spec.strategy.stableService: Invalid value: This rollout uses the same service for the stable and canary services, but two different services are required."
	case routing == nil && canary.ScaleDownDelaySeconds != nil:
		return "spec.strategy.scaleDownDelaySeconds: Invalid value: Canary scaleDownDelaySeconds can only be used with traffic routing"
	case routing == nil && canary.DynamicStableScale:
		return "spec.strategy.dynamicStableScale: Invalid value: Canary dynamicStableScale can only be used with traffic routing"
	case routing != nil && (canary.StableService == "" || canary.CanaryService == ""):
		return "spec.strategy.stableService: Invalid value: Canary service and Stable service must to be set to use Traffic Routing"
	case canary.ScaleDownDelaySeconds != nil && canary.DynamicStableScale:
		return "spec.strategy.dynamicStableScale: Invalid value: Canary dynamicStableScale cannot be used with scaleDownDelaySeconds"
	}
	for i := range canary.Steps {
		if problem := p.invalidStep(&canary.Steps[i]); problem != "" {
			return fmt.Sprintf("spec.strategy.steps[%d]%s", i, problem)
		}
	}
	return ""
}

// isZero: a number or percentage is there and zero.
func isZero(value *intstr.IntOrString) bool {
	return value != nil && (value.Type == intstr.Int && value.IntVal == 0 || value.Type == intstr.String && (value.StrVal == "0" || value.StrVal == "0%"))
}

// invalidStep checks a step. The result follows its path.
func (p *pass) invalidStep(step *v1alpha1.CanaryStep) string {
	count := 0
	for _, set := range []bool{step.SetWeight != nil, step.Pause != nil, step.Analysis != nil, step.SetCanaryScale != nil, step.SetHeaderRoute != nil, step.SetMirrorRoute != nil} {
		if set {
			count++
		}
	}
	switch {
	case count != 1:
		return ": Invalid value: Step must have one of the following set: setWeight, setCanaryScale, setHeaderRoute, setMirrorRoute, analysis or pause"
	case step.SetWeight != nil && (*step.SetWeight < 0 || *step.SetWeight > p.fullWeight()):
		return fmt.Sprintf(".setWeight: Invalid value: %d: SetWeight needs to be between 0 and %d", *step.SetWeight, p.fullWeight())
	case step.Pause != nil && step.Pause.Seconds() < 0:
		return ".pause.duration: Invalid value: Duration needs to be greater than 0"
	case step.SetCanaryScale != nil && p.spec.Strategy.Canary.TrafficRouting == nil:
		return ".setCanaryScale: Required value: SetCanaryScale requires TrafficRouting to be set"
	case step.SetHeaderRoute != nil || step.SetMirrorRoute != nil:
		return p.invalidRoute(step)
	}
	return ""
}

// missingServices checks that the Services exist, and that no other Rollout manages
// them.
func (p *pass) missingServices() string {
	for _, name := range serviceNames(p.spec) {
		service := p.seen.Services[name]
		if service == nil {
			return fmt.Sprintf("spec.strategy: Invalid value: %q: service %q not found", name, name)
		}
		if owner := service.Annotations[annotationManagedBy]; owner != "" && owner != p.rollout.Name {
			return fmt.Sprintf("spec.strategy: Invalid value: %q: Service %q is managed by another Rollout", name, name)
		}
	}
	return ""
}

// missingRoutes checks that the Ingresses and HTTPRoutes exist and serve the stable
// Service.
func (p *pass) missingRoutes() string {
	canary := p.spec.Strategy.Canary
	if canary == nil || canary.TrafficRouting == nil {
		return ""
	}
	routing, place := canary.TrafficRouting, "spec.strategy.canary.trafficRouting"
	if routing.Nginx == nil && (routing.Plugins == nil || routing.Plugins.GatewayAPI == nil) {
		return place + ": Required value: name a router: nginx, or plugins with argoproj-labs/gatewayAPI"
	}
	for _, name := range ingressNames(routing) {
		stable := p.seen.Ingresses[name]
		switch {
		case stable == nil:
			return fmt.Sprintf("%s.nginx.stableIngress: Invalid value: %q: ingress %q not found", place, name, name)
		case len(canaryRules(stable, canary.StableService, canary.CanaryService)) == 0:
			return fmt.Sprintf("%s.nginx.stableIngress: Invalid value: %q: ingress `%s` has no rules using service %s backend", place, name, name, canary.StableService)
		}
	}
	return p.missingHTTPRoutes(place)
}
