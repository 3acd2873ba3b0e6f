package rollout

import (
	"maps"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

const (
	// nginxPrefix is the default prefix of the annotations of a canary Ingress.
	nginxPrefix     = "nginx.ingress.kubernetes.io"
	annotationClass = "kubernetes.io/ingress.class"
	// maxName bounds the name of a canary Ingress.
	maxName = 253
)

// ingressNames are the Ingresses whose traffic is split.
func ingressNames(routing *v1alpha1.RolloutTrafficRouting) []string {
	switch {
	case routing == nil || routing.Nginx == nil:
		return nil
	case routing.Nginx.StableIngresses != nil:
		return routing.Nginx.StableIngresses
	}
	return []string{routing.Nginx.StableIngress}
}

// canaryIngressName is the name of the Ingress with the weight.
func canaryIngressName(rollout, stable string) string {
	prefix := rollout + "-" + stable
	if len(prefix) > maxName-len("-canary") {
		prefix = prefix[:maxName-len("-canary")]
	}
	return prefix + "-canary"
}

// writeCanaryIngress creates or changes the canary Ingress beside a stable one. One that
// another object owns is left alone.
func (p *pass) writeCanaryIngress(stableName string, weight int32) {
	stable := p.seen.Ingresses[stableName]
	if stable == nil {
		return // invalid has reported it
	}
	wanted := p.canaryIngress(stable, weight)
	live := p.seen.Ingresses[wanted.Name]
	if live == nil {
		p.write(Write{Resource: ingresses, Name: wanted.Name, Create: wanted})
		p.event(reasonCreateIngress, "Creating canary ingress `%s` with weight `%d`", wanted.Name, weight)
		return
	}
	if !metav1.IsControlledBy(live, p.rollout) {
		p.warn("TrafficRoutingError", "canary ingress `%s` controlled by different object", live.Name)
		return
	}
	changed := map[string]any{}
	for name, value := range wanted.Annotations {
		if live.Annotations[name] != value {
			changed[name] = value
		}
	}
	if len(changed) == 0 && equality.Semantic.DeepEqual(live.Spec, wanted.Spec) {
		return
	}
	// A merge patch keeps what it does not name.
	spec := map[string]any{"rules": wanted.Spec.Rules, "tls": wanted.Spec.TLS, "ingressClassName": wanted.Spec.IngressClassName}
	p.write(Write{Resource: ingresses, Name: live.Name, Patch: map[string]any{"metadata": map[string]any{"annotations": changed}, "spec": spec}})
	p.event(reasonCanaryIngress, "Updating Ingress `%s` to desiredWeight '%d'", live.Name, weight)
}

// canaryIngress is the canary Ingress of a stable one: its rules for the stable Service,
// with the canary Service, and the annotations of ingress-nginx.
func (p *pass) canaryIngress(stable *networkingv1.Ingress, weight int32) *networkingv1.Ingress {
	canary := p.spec.Strategy.Canary
	nginx := canary.TrafficRouting.Nginx
	prefix := nginx.AnnotationPrefix
	if prefix == "" {
		prefix = nginxPrefix
	}
	annotations := map[string]string{}
	if class, ok := stable.Annotations[annotationClass]; ok {
		annotations[annotationClass] = class
	}
	for name, value := range nginx.AdditionalIngressAnnotations {
		if !strings.HasPrefix(name, prefix) {
			name = prefix + "/" + name
		}
		annotations[name] = value
	}
	maps.Copy(annotations, nginx.CanaryIngressAnnotations)
	annotations[prefix+"/canary"] = "true"
	annotations[prefix+"/canary-weight"] = strconv.FormatInt(int64(weight), 10)
	if canary.TrafficRouting.MaxTrafficWeight != nil {
		annotations[prefix+"/canary-weight-total"] = strconv.FormatInt(int64(p.fullWeight()), 10)
	}
	return &networkingv1.Ingress{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"},
		ObjectMeta: metav1.ObjectMeta{
			Name: canaryIngressName(p.rollout.Name, stable.Name), Namespace: p.rollout.Namespace, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p.rollout, kindOf())},
		},
		Spec: networkingv1.IngressSpec{
			IngressClassName: stable.Spec.IngressClassName, TLS: stable.Spec.TLS,
			Rules: canaryRules(stable, canary.StableService, canary.CanaryService),
		},
	}
}

// canaryRules are the rules of an Ingress with a backend of the stable Service, for the
// canary Service.
func canaryRules(stable *networkingv1.Ingress, stableService, canaryService string) []networkingv1.IngressRule {
	var rules []networkingv1.IngressRule
	for i := range stable.Spec.Rules {
		rule := stable.Spec.Rules[i].DeepCopy()
		found := false
		if rule.HTTP == nil {
			continue
		}
		for j := range rule.HTTP.Paths {
			if service := rule.HTTP.Paths[j].Backend.Service; service != nil && service.Name == stableService {
				service.Name = canaryService
				found = true
			}
		}
		if found {
			rules = append(rules, *rule)
		}
	}
	return rules
}
